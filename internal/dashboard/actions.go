package dashboard

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// action is how pages show an action that a form requests.
type action struct {
	done   string          // the heading of the answer
	undo   operator.Action // the action that undoes it; "" if there is none
	undone string          // the text of that button
}

// actions are the actions by the last segment of their path.
var actions = map[operator.Action]action{
	operator.Reset:    {done: "Counts start from zero"},
	operator.Ban:      {"Banned", operator.Unban, "Undo: lift this ban"},
	operator.Unban:    {done: "No longer banned"},
	operator.Allow:    {"Always let in", operator.Disallow, "Undo: end this allowance"},
	operator.Disallow: {done: "Limits hold again"},
	operator.Raise:    {"Limits raised", operator.Unraise, "Undo: end this raise"},
	operator.Unraise:  {done: "Limits no longer raised"},
}

// donePage shows the result of an action.
type donePage struct {
	Who    Who
	Done   operator.Done
	Zone   string // the only zone; "" for all
	Undo   operator.Action
	Undone string
}

// act executes an action and shows its result.
func (v *visit) act(name operator.Action) {
	if !v.Writable() {
		v.fail(operator.Errorf(http.StatusForbidden,
			"This dashboard reads only: nothing was changed. The option writable lets it act on clients."))
		return
	}
	command, err := v.readCommand()
	if err != nil {
		v.fail(err)
		return
	}
	a := actions[name]
	// the answer tells whether there was something
	if a.undo == "" && isKnown(v.Typed("client")) && v.Typed("handle") == "" {
		if err := v.d.options.Looks.take(v.User, v.Now); err != nil {
			v.fail(err)
			return
		}
	}
	done, err := v.d.options.Service.Do(v.r.Context(), name, command)
	if err != nil {
		v.fail(err)
		return
	}
	p := donePage{Who: v.asTyped(done.Client, done.Client, ""), Done: done, Zone: command.Zone, Undo: a.undo,
		Undone: a.undone}
	v.render(http.StatusOK, "", a.done, "done", p)
}

// maxFor is the longest duration of a ban or an allowance.
const maxFor = 10 * 365 * 24 * time.Hour

func (v *visit) readCommand() (o operator.Command, err error) {
	form := v.r.PostForm
	if o.Client, err = v.client(); err != nil {
		return o, err
	}
	o.Factor = strings.TrimSpace(form.Get("factor"))
	o.By, o.Zone, o.Reason = v.User, form.Get("zone"), strings.TrimSpace(form.Get("reason"))
	o.KeepViolations = form.Has("keep_violations")
	o.Force = form.Get("force") != ""
	if v.d.options.Address != nil {
		o.From = v.d.options.Address(v.r)
	}
	if len([]rune(o.Reason)) > operator.MaxReason {
		return o, operator.Errorf(http.StatusBadRequest, "The reason is longer than %d characters.", operator.MaxReason)
	}
	if text := form.Get("for"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 32)
		if err != nil || seconds > uint64(maxFor.Seconds()) {
			return o, operator.Errorf(http.StatusBadRequest,
				"How long: got %.20q: expected seconds, at most 10 years.", text)
		}
		o.For = operator.Seconds(seconds)
	}
	return o, nil
}
