package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

const fileHead = `# Bans, allowances and raises, one per line. A change is in force within a second. Examples:
#   ban 203.0.113.0/24 until 2026-12-01 # scraper
#   allow api-key:acme until 2026-11-22T14:00:00Z
#   raise 5x api-key:acme until 2026-12-01
`

// keepEnded is how long a rule stays in an edited file after it has ended.
const keepEnded = 30 * 24 * time.Hour

// Add adds rules to a file, and creates the file if necessary. A new rule replaces one with the
// same action and target. A ban also removes the allowance of its target, which would override it.
// Rules that ended more than 30 days before now are removed, all other lines stay unchanged. A file
// with an invalid line is not changed.
func Add(path string, now time.Time, added ...Rule) error {
	for i := range added {
		if err := added[i].check(); err != nil {
			return fmt.Errorf("rules: %v: %w", added[i].Target, err)
		}
	}
	return edit(path, func(text []byte) ([]byte, error) { return add(text, now, added) })
}

// about identifies a rule in a file.
type about struct {
	Action
	Target
}

func add(text []byte, now time.Time, added []Rule) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte(fileHead)
	}
	fresh := make(map[about]*Rule, len(added)) // the last rule for each counts
	for i := range added {
		s := &added[i]
		fresh[about{s.Action, s.Target}] = s
		if s.Action == Ban {
			delete(fresh, about{Allow, s.Target})
		}
	}
	written := make(map[*Rule]bool, len(fresh))
	var kept bytes.Buffer
	put := func(s *Rule) {
		if s != nil && !written[s] {
			written[s] = true
			fmt.Fprintln(&kept, s)
		}
	}
	err := eachLine(text, func(line string, s *Rule) {
		switch {
		case s == nil:
			fmt.Fprintln(&kept, line)
		case fresh[about{s.Action, s.Target}] != nil:
			put(fresh[about{s.Action, s.Target}])
		case s.Action == Allow && fresh[about{Ban, s.Target}] != nil, !s.Until.IsZero() && now.Sub(s.Until) > keepEnded:
		default:
			fmt.Fprintln(&kept, line)
		}
	})
	for i := range added {
		put(fresh[about{added[i].Action, added[i].Target}])
	}
	return kept.Bytes(), err
}

// Remove removes the rules with a target and an action from a file, and returns them. An action of
// 0 matches any. If there are none, it changes nothing.
func Remove(path string, action Action, target Target) (removed []Rule, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = edit(path, func(text []byte) ([]byte, error) {
		var kept bytes.Buffer
		err := eachLine(text, func(line string, s *Rule) {
			if s != nil && s.Target == target && (action == 0 || action == s.Action) {
				removed = append(removed, *s)
				return
			}
			fmt.Fprintln(&kept, line)
		})
		return kept.Bytes(), err
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// edit replaces the text of a file by the result of change. The result must be valid.
func edit(path string, change func([]byte) ([]byte, error)) error {
	err := textfile.Edit(path, maxFile, func(text []byte) ([]byte, error) {
		text, err := change(text)
		if err != nil {
			return nil, err
		}
		return text, eachLine(text, func(string, *Rule) {})
	})
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}
