package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A table is a table in Markdown that is being written. Its first error stays.
type table struct {
	result string
	text   strings.Builder
	err    error
}

func newTable(result string, head ...string) *table {
	t := &table{result: result}
	t.row(head...)
	t.text.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	return t
}

func (t *table) row(cells ...string) {
	fmt.Fprintf(&t.text, "| %s |\n", strings.Join(cells, " | "))
}

// find is [find], with empty groups after an error.
func (t *table) find(groups int, pattern string, args ...any) []string {
	found, err := find(t.result, fmt.Sprintf(pattern, args...))
	if err != nil {
		if t.err == nil {
			t.err = err
		}
		return make([]string, groups)
	}
	return found
}

func (t *table) done() (string, error) { return t.text.String(), t.err }

// peersTable compares limiters of servers: processor time per request as a multiple of that
// without a limiter, and memory.
func peersTable(result string) (string, error) {
	t := newTable(result, "CPU per request, memory", "one client", "100,000 in turn", "new ones only", "all refused")
	for _, s := range []struct{ title, name, side string }{
		{"this module", "caddy", "(?:headers on|limited)"}, {"mholt/caddy-ratelimit", "incumbent", "limited"},
		{"nginx `limit_req`", "nginx", "limited"}, {"HAProxy stick table", "haproxy", "limited"},
	} {
		cells := []string{s.title}
		for _, c := range []string{"one-key", "rotation", "new-keys", "refused"} {
			f := t.find(2, `%s +(?:100 +)?%s +%s .* µs +(?:.*\) +)?([\d.]+) +(\d+) MiB +\d+ MiB`, s.name, c, s.side)
			cells = append(cells, fmt.Sprintf("%s, %s MiB", f[0], thousands(f[1])))
		}
		t.row(cells...)
	}
	return t.done()
}

// footprintTable shows what the module adds to a Caddy.
func footprintTable(result string) (string, error) {
	t := newTable(result, "", "Caddy", "with this module", "with a zone")
	f := t.find(2, `binary, MiB: (\S+) plain, (\S+) with the module`)
	t.row("binary, MiB", number("%.1f", f[0]), number("%.1f", f[1]), "")
	memory := map[string][]string{}
	sides := []string{"plain", "module unused", "a zone"}
	for _, side := range sides {
		memory[side] = t.find(4, `%s +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) \(`, side)
	}
	for i, what := range []string{"own memory, MiB", "resident pages of the binary, MiB", "of other files, MiB", "resident in all, MiB"} {
		cells := []string{what}
		for _, side := range sides {
			cells = append(cells, number("%.1f", memory[side][i]))
		}
		t.row(cells...)
	}
	t.row("first answer after the start, ms", t.find(1, `first answer, plain: (\d+)`)[0], "", t.find(1, `first answer, a zone, no database: (\d+)`)[0])
	t.row("with a million rows, ms", "", "", t.find(1, `first answer, a zone, \d+ rows: (\d+)`)[0])
	t.row("after `kill -9`, ms", "", "", t.find(1, `first answer, a zone, \d+ rows, after kill -9: (\d+)`)[0])
	return t.done()
}

// hotkeyTable shows claims per admitted request at 10, 80 and 200 % of a limit.
func hotkeyTable(result string) (string, error) {
	t := newTable(result, "limit", "sliding", "fixed", "token bucket")
	for _, amount := range []string{"60", "1000", "10000"} {
		cells := []string{thousands(amount) + "/1m"}
		for _, algorithm := range []string{"sliding", "fixed", "token_bucket"} {
			var claims []string
			for _, asked := range []int{10, 80, 200} {
				f := t.find(1, `(?:Benchmark)?Steady/%s/limit=%sper1m0s/asked=%d%%-.*\s([\d.]+) claims/admitted`, algorithm, amount, asked)
				claims = append(claims, number("%.2g", f[0]))
			}
			cells = append(cells, strings.Join(claims, " · "))
		}
		t.row(cells...)
	}
	return t.done()
}

// fleetTable compares machines that share a Redis with one pipeline or script per request: the mean
// of all rounds, and the slowest and the fastest round.
func fleetTable(result string) (string, error) {
	t := newTable(regexp.MustCompile(` +\(`).ReplaceAllString(result, " ("), "requests per second, as a multiple of",
		"1 machine: `INCRBY`", "script", "4 machines: `INCRBY`", "script", "commands", "Redis' CPU, µs: this, `INCRBY`, script")
	for _, c := range []struct{ title, name string }{
		{"100,000 keys in rotation, 10,000/1m each", "keys in rotation, 10,000/1m"}, {"half of the requests refused", "half refused"},
		{"one hot key", "one hot key"}, {"each request has a new key", "new keys"},
	} {
		cells, commands, cpu := []string{c.title}, "", []string{}
		for _, machines := range []string{"1", "4"} {
			means := make([]string, 3)
			var tally []string
			for i, way := range []string{"incrby", "script", "tally"} {
				f := t.find(7, `%s +64 +%s +%s +\d+ +(\d+) +\S+ \((\S+) to (\S+)\) +\S+ \((\S+) to (\S+)\) +(\S+) µs +(?:\S+ µs +)?(\d\S+) `, machines, c.name, way)
				means[i], tally = f[0], f
				if machines == "1" {
					cpu, commands = append(cpu, f[5]), f[6]
				}
			}
			cells = append(cells,
				fmt.Sprintf("%s (%s to %s)", tenth(ratio(means[2], means[0])), tenth(tally[1]), tenth(tally[2])),
				fmt.Sprintf("%s (%s to %s)", tenth(ratio(means[2], means[1])), tenth(tally[3]), tenth(tally[4])))
		}
		t.row(append(cells, commands, strings.Join([]string{cpu[2], cpu[0], cpu[1]}, ", "))...)
	}
	return t.done()
}

// memoryTable shows bytes of heap for each key and limit.
func memoryTable(result string) (string, error) {
	t := newTable(result, "bytes of heap for each key and limit", "not blocked", "blocked")
	for _, a := range []struct{ title, name string }{{"sliding, fixed", "sliding"}, {"token bucket", "token_bucket"}} {
		cells := []string{a.title}
		for _, blocked := range []bool{false, true} {
			cells = append(cells, number("%.0f", t.find(1, `BenchmarkMemory/%s/blocked=%v-.*\s([\d.]+) heap-B/key`, a.name, blocked)[0]))
		}
		t.row(cells...)
	}
	return t.done()
}

// scaleTable shows bytes of a row, and what claims cost with more rows.
func scaleTable(result string) (string, error) {
	t := newTable(result, "rows in the database", "10,000", "a million", "ten million")
	for _, k := range []string{"sliding 100/1m", "fixed 100/1m", "token bucket 100/1m"} {
		cells := []string{"bytes of a row, " + k}
		for _, rows := range []int{10_000, 1_000_000} {
			cells = append(cells, number("%.0f", t.find(1, `size %s rows=%d .*bytes/row=([\d.]+)`, k, rows)[0]))
		}
		t.row(append(cells, "")...)
	}
	for _, journal := range []string{"on", "off"} {
		for _, keys := range []string{"known", "new"} {
			cells := []string{fmt.Sprintf("µs of processor time of a claim, %s keys, `journal %s`", keys, journal)}
			for _, rows := range []int{10_000, 1_000_000, 10_000_000} {
				cells = append(cells, number("%.0f", t.find(1, `cost rows=%d %s keys, journal %s: ([\d.]+)`, rows, keys, journal)[0]))
			}
			t.row(cells...)
		}
	}
	return t.done()
}

// number returns a number in a format.
func number(format, text string) string {
	x, _ := strconv.ParseFloat(text, 64) // a pattern has matched it, or there was an error
	return fmt.Sprintf(format, x)
}

// ratio returns a number as a multiple of another.
func ratio(a, b string) string {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return fmt.Sprint(x / y)
}

// tenth returns a number with one decimal, or without any from 10 on.
func tenth(text string) string {
	if x, _ := strconv.ParseFloat(text, 64); x >= 10 {
		return number("%.0f", text)
	}
	return number("%.1f", text)
}

// thousands returns an integer below a million with a comma: 2,660.
func thousands(text string) string {
	if len(text) > 3 {
		return text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
