package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// action is an action of the service that a form requests.
type action struct {
	done   string // the heading of the answer
	undo   string // the action that undoes it; "" if there is none
	undone string // the text of that button
	give   func(operator.Service, context.Context, operator.Command) (operator.Done, error)
}

// actions are the actions by the last segment of their path.
var actions = map[string]action{
	"reset":    {done: "Counts start from zero", give: operator.Service.Reset},
	"ban":      {done: "Banned", undo: "unban", undone: "Undo: lift this ban", give: operator.Service.Ban},
	"unban":    {done: "No longer banned", give: operator.Service.Unban},
	"allow":    {done: "Always let in", undo: "disallow", undone: "Undo: end this allowance", give: operator.Service.Allow},
	"disallow": {done: "Limits hold again", give: operator.Service.Disallow},
	"raise":    {done: "Limits raised", undo: "unraise", undone: "Undo: end this raise", give: operator.Service.Raise},
	"unraise":  {done: "Limits no longer raised", give: operator.Service.Unraise},
}

// donePage shows the result of an action.
type donePage struct {
	Who    Who
	Done   operator.Done
	Zone   string // the only zone; "" for all
	Undo   string
	Undone string
}

// act executes an action and shows its result.
func (v *visit) act(a action) {
	if !v.Writable() {
		v.fail(operator.Errorf(http.StatusForbidden, "This dashboard reads only: nothing was changed. The option writable lets it act on clients."))
		return
	}
	command, err := v.readCommand()
	if err != nil {
		v.fail(err)
		return
	}
	done, err := a.give(v.d.options.Service, v.r.Context(), command)
	if err != nil {
		v.fail(err)
		return
	}
	p := donePage{Who: v.asTyped(done.Client, done.Client, ""), Done: done, Zone: command.Zone, Undo: a.undo, Undone: a.undone}
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
	o.By, o.Zone, o.Reason = v.user, form.Get("zone"), strings.TrimSpace(form.Get("reason"))
	o.KeepViolations = form.Has("keep_violations")
	o.Force = form.Get("force") != ""
	if len([]rune(o.Reason)) > operator.MaxReason {
		return o, operator.Errorf(http.StatusBadRequest, "The reason is longer than %d characters.", operator.MaxReason)
	}
	if text := form.Get("for"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 32)
		if err != nil || seconds > uint64(maxFor.Seconds()) {
			return o, operator.Errorf(http.StatusBadRequest, "How long: got %.20q: expected seconds, at most 10 years.", text)
		}
		o.For = operator.Seconds(seconds)
	}
	return o, nil
}
