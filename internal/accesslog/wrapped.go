package accesslog

import (
	"bytes"
	"errors"
	"time"

	"github.com/valyala/fastjson"
)

// wrapped reads lines that a runtime of containers or journald has put into lines of its own, perhaps in pieces:
// Docker's JSON (*-json.log), CRI's lines of Kubernetes, and journalctl -o json.
type wrapped struct {
	json   fastjson.Parser
	pieces [2][]byte // of a line that isn't complete: of the standard output, and of the standard error
}

var errLeftOut = errors.New(
	"journalctl has left out a long message: expected the lines of journalctl --all -o json, or of -o cat")

// unwrap returns the line in a line, valid until the next call, or false if a later line completes it.
func (w *wrapped) unwrap(line []byte) (text []byte, complete bool, err error) {
	stream := 0
	switch {
	case bytes.HasPrefix(line, []byte(`{"log":"`)):
		object, err := w.json.ParseBytes(line)
		if err != nil {
			return line, true, nil
		}
		if text = object.GetStringBytes("log"); string(object.GetStringBytes("stream")) == "stderr" {
			stream = 1
		}
		complete = bytes.HasSuffix(text, []byte("\n"))
	case bytes.HasPrefix(line, []byte("{")) && bytes.Contains(line, []byte(`"__REALTIME_TIMESTAMP":`)):
		text, err = w.message(line)
		return text, true, err
	default:
		head, rest, found := bytes.Cut(line, []byte(" std"))
		if !found || len(head) > maxTime {
			return line, true, nil
		}
		if _, err := time.Parse(time.RFC3339Nano, string(head)); err != nil {
			return line, true, nil
		}
		switch {
		case bytes.HasPrefix(rest, []byte("err ")):
			stream = 1
		case !bytes.HasPrefix(rest, []byte("out ")):
			return line, true, nil
		}
		text = rest[len("out "):]
		if complete = bytes.HasPrefix(text, []byte("F ")); !complete && !bytes.HasPrefix(text, []byte("P ")) {
			return line, true, nil
		}
		if text = text[len("F "):]; !complete {
			text = bytes.TrimRight(text, "\r\n")
		}
	}
	piece := &w.pieces[stream]
	if len(*piece) == 0 && complete {
		return text, true, nil
	}
	if len(*piece) <= maxLine {
		*piece = append(*piece, text...)
	}
	if !complete {
		return nil, false, nil
	}
	if text, *piece = *piece, (*piece)[:0]; len(text) > maxLine {
		return text[:maxQuoted], true, errLong
	}
	return text, true, nil
}

// message returns the message of a line of journalctl, which is a list of bytes if it isn't valid UTF-8.
func (w *wrapped) message(line []byte) (text []byte, err error) {
	object, err := w.json.ParseBytes(line)
	if err != nil {
		return line, nil
	}
	message := object.Get("MESSAGE")
	if message != nil && message.Type() == fastjson.TypeNull {
		return line, errLeftOut
	}
	for _, b := range object.GetArray("MESSAGE") {
		text = append(text, byte(b.GetInt()))
	}
	if text == nil {
		text = object.GetStringBytes("MESSAGE")
	}
	return text, nil
}
