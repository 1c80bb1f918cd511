package enforce_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// The measures of the servers.
const (
	openAI    = "{http.rate_limit.answer.usage.total_tokens|response.usage.total_tokens}"
	anthropic = "{http.rate_limit.answer.usage.input_tokens|message.usage.input_tokens} {http.rate_limit.answer.usage.output_tokens}"
	ollama    = "{http.rate_limit.answer.prompt_eval_count} {http.rate_limit.answer.eval_count}"
)

const (
	stream = "text/event-stream; charset=utf-8"
	lines  = "application/x-ndjson"
	whole  = "application/json"
)

// said is what a model says when it is asked for the text of an answer.
var said = func() string {
	text, _ := json.Marshal("\n\ndata: {\"usage\":{\"total_tokens\":1}}\n\n{\"usage\":{\"total_tokens\":1,\"input_tokens\":1,\"output_tokens\":1},\"eval_count\":1,\"prompt_eval_count\":1}\"},\\\"usage\\\":{")
	return string(text)
}()

var tooDeep = strings.Repeat("[", 600) + strings.Repeat("]", 600)

// shapes are answers of servers of language models, as their documents show them.
var shapes = map[string]struct {
	measure, kind, body string
	used                int
}{
	"chat": {openAI, whole, `{"id":"chatcmpl-B9","object":"chat.completion","created":1741569952,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":SAID,"refusal":null},"logprobs":null,"finish_reason":"stop"}],
		"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"total_tokens":7},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}`, 29},
	"chat, usage first": {openAI, whole, `{"usage":{"total_tokens":29},"choices":[{"message":{"content":SAID,"tool_calls":[{"function":{"arguments":{"usage":{"total_tokens":2}}}}]}}]}`, 29},
	"chat stream with stream_options": {openAI, stream, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":SAID}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29}}\n\ndata: [DONE]\n\n", 29},
	"chat stream without stream_options": {openAI, stream, "data: {\"choices\":[{\"delta\":{\"content\":SAID}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", 100},
	"usage in every event, as of vLLM":   {openAI, stream, "data: {\"choices\":[],\"usage\":{\"total_tokens\":20}}\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":SAID}}],\"usage\":{\"total_tokens\":29}}\r\n\r\ndata: [DONE]\r\n\r\n", 29},
	"responses":                          {openAI, whole, `{"id":"resp_67","object":"response","output":[{"type":"message","content":[{"type":"output_text","text":SAID}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":0},"output_tokens":87,"total_tokens":123}}`, 123},
	"responses stream": {openAI, stream, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_67\",\"usage\":null}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":SAID}\n\n" +
		": a comment\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text\":SAID}]}],\"usage\":{\"input_tokens\":37,\"output_tokens\":11,\"total_tokens\":48}}}\n\n", 48},
	"messages": {anthropic, whole, `{"id":"msg_01","type":"message","content":[{"type":"text","text":SAID},{"type":"tool_use","input":{"usage":{"output_tokens":3}}}],"stop_reason":"end_turn","usage":{"input_tokens":2095,"cache_creation_input_tokens":0,"output_tokens":503}}`, 2598},
	"messages stream": {anthropic, stream, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"content\":[],\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":SAID}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":215}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", 240},
	"messages stream with all in the end":   {anthropic, stream, "data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\ndata: {\"usage\":{\"input_tokens\":25,\"output_tokens\":215}}\n\n", 240},
	"messages stream that breaks off":       {anthropic, stream, "data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\ndata: {\"delta\":", 100},
	"a long question that breaks off":       {anthropic, stream, "data: {\"message\":{\"usage\":{\"input_tokens\":700,\"output_tokens\":1}}}\n\n", 700},
	"Ollama":                                {ollama, "application/json; charset=utf-8", `{"model":"llama3.2","message":{"role":"assistant","content":SAID},"done":true,"total_duration":5191566416,"prompt_eval_count":26,"prompt_eval_duration":383809000,"eval_count":298,"eval_duration":4799921000}`, 324},
	"Ollama stream":                         {ollama, lines, "{\"message\":{\"content\":SAID},\"done\":false}\n{\"message\":{\"content\":\"!\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"total_duration\":4883583458,\"prompt_eval_count\":26,\"eval_count\":282}\n", 308},
	"Gemini's array":                        {"{http.rate_limit.answer.usageMetadata.totalTokenCount}", whole, "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":SAID}]}}],\"usageMetadata\":{\"totalTokenCount\":7}},\n{\"usageMetadata\":{\"totalTokenCount\":31}}]", 31},
	"pretty":                                {openAI, whole, "{\n  \"x\" : SAID ,\n  \"usage\" : {\n    \"total_tokens\" : 29\n  }\n}\n", 29},
	"no number":                             {openAI, whole, `{"usage":{"total_tokens":"many"}}`, 100},
	"negative":                              {openAI, whole, `{"usage":{"total_tokens":-5}}`, 100},
	"zero":                                  {openAI, whole, `{"usage":{"total_tokens":0}}`, 0},
	"text":                                  {openAI, "text/plain", `{"usage":{"total_tokens":1}}`, 100},
	"an error":                              {openAI, whole, `{"error":{"message":"The model is overloaded.","usage":{"total_tokens":1}}}`, 100},
	"no JSON":                               {openAI, whole, "oops }\n{\"usage\":{\"total_tokens\":1}}", 100},
	"cut off a number":                      {openAI, whole, `{"usage":{"total_tokens":2`, 100},
	"data of two lines":                     {openAI, stream, "data: {\"usage\":\r\ndata: {\"total_tokens\":29}}\r\n\r\n", 29},
	"messages stream with zeros in the end": {anthropic, stream, "data: {\"message\":{\"usage\":{\"input_tokens\":500,\"output_tokens\":1}}}\n\ndata: {\"usage\":{\"input_tokens\":0,\"output_tokens\":23}}\n\n", 523},
	"a chunk of zeros in the end":           {openAI, stream, "data: {\"usage\":{\"total_tokens\":29}}\n\ndata: {\"usage\":{\"total_tokens\":0}}\n\ndata: [DONE]\n\n", 29},
	"null in the end":                       {openAI, stream, "data: {\"usage\":{\"total_tokens\":29}}\n\ndata: {\"usage\":{\"total_tokens\":null}}\n\ndata: {\"usage\":null}\n\n", 29},
	"null alone":                            {openAI, whole, `{"usage":{"total_tokens":null}}`, 100},
	"less in the end":                       {openAI, lines, "{\"usage\":{\"total_tokens\":29}}\n{\"usage\":{\"total_tokens\":7}}\n{\"usage\":{\"total_tokens\":\"\"}}\n{\"usage\":{\"total_tokens\":-1}}\n", 29},
	"twice":                                 {openAI, whole, `{"usage":{"total_tokens":29},"usage":{"total_tokens":7,"total_tokens":"3"}}`, 29},
	"two paths":                             {openAI, whole, `{"response":{"usage":{"total_tokens":29}},"usage":{"total_tokens":7}}`, 29},
	"a number beside no number":             {ollama, whole, `{"prompt_eval_count":700,"eval_count":"many"}`, 700},
	"events after a byte order mark":        {openAI, stream, "\ufeffdata: {\"usage\":{\"total_tokens\":29}}\n\n", 29},
	"a byte order mark later":               {openAI, stream, "\n\ufeffdata: {\"usage\":{\"total_tokens\":29}}\n\n", 100},
	"JSON after a byte order mark":          {openAI, whole, "\ufeff{\"usage\":{\"total_tokens\":29}}", 29},
	"charset without a value":               {openAI, "application/json; charset", `{"usage":{"total_tokens":29}}`, 29},
	"a charset twice":                       {openAI, "Application/JSON ;charset=utf-8;charset=utf-8", `{"usage":{"total_tokens":29}}`, 29},
	"events with odd parameters":            {openAI, "Text/Event-Stream; charset;", "data: {\"usage\":{\"total_tokens\":29}}\n\n", 29},
	"lines that end with CR":                {openAI, stream, ": hello\rid: 1\rdata: {\"usage\":\rdata: {\"total_tokens\":29}}\r\rdata: [DONE]\r\r", 29},
	"a number beside another line":          {openAI, stream, "data: {\"usage\":{\"total_tokens\":2\ndata: 9}}\n\n", 9},
	"an event that is cut off":              {openAI, stream, "data: {\"usage\":{\"total_tokens\":2\n\ndata: {\"usage\":{\"total_tokens\":29}}\n\n", 29},
	"an event that is cut off in a number":  {openAI, stream, "data: {\"usage\":{\"total_tokens\":2\n\n", 100},
	"an event that is too deep":             {openAI, stream, "data: " + tooDeep + "\n\ndata: {\"usage\":{\"total_tokens\":29}}\n\n", 29},
	"a line that is broken":                 {openAI, lines, "{\"a\":}]\n{\"usage\":{\"total_tokens\":29}}\n", 29},
	"a line that is cut off":                {openAI, lines, "{\"a\":{\r\n{\"usage\":{\"total_tokens\":29}}\r\n", 29},
	"a line that is cut off in a text":      {openAI, lines, "{\"a\":\"\\\n{\"usage\":{\"total_tokens\":29}}\n", 29},
	"a line that is cut off in a number":    {openAI, lines, "{\"usage\":{\"total_tokens\":2\n", 100},
	"a line that is too deep":               {openAI, "application/jsonlines", tooDeep + "\n{\"usage\":{\"total_tokens\":29}}", 29},
	"JSON in lines, and a broken one":       {openAI, whole, "\n{\"a\":1}\n{\"a\":[\"\n\n{\"usage\":{\"total_tokens\":29}}\n", 29},
	"pretty, after empty lines":             {openAI, whole, "\n \n{\n  \"usage\":\n  {\n    \"total_tokens\":\n29\n  }\n}\n", 29},
	"pretty, and too deep":                  {openAI, whole, "{\n\"a\":\n" + tooDeep + ",\n\"b\":\n{\"usage\":{\"total_tokens\":1}}\n}\n", 100},
	"another field":                         {openAI, stream, "event: {\"usage\":{\"total_tokens\":1}}\nid: {\"usage\":{\"total_tokens\":1}}\ndatax: {\"usage\":{\"total_tokens\":1}}\n\n", 100},
}

// TestUseInAnswers settles by what answers say of the tokens they have used, in whatever pieces they come. Text in
// strings never counts, and without the field the cost stays.
func TestUseInAnswers(t *testing.T) {
	for name, c := range shapes {
		body := strings.ReplaceAll(c.body, "SAID", said)
		for way, write := range map[string]func(w http.ResponseWriter) error{
			"at once": func(w http.ResponseWriter) error { _, err := io.WriteString(w, body); return err },
			"bytes": func(w http.ResponseWriter) error {
				for i := range len(body) {
					if _, err := io.WriteString(w, body[i:i+1]); err != nil {
						return err
					}
				}
				return nil
			},
			"copied": func(w http.ResponseWriter) error {
				_, err := w.(io.ReaderFrom).ReadFrom(iotest.HalfReader(strings.NewReader(body)))
				return err
			},
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				h := settled(t, c.measure, 0)
				w, err := handlertest.Ask(t.Context(), h, func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", c.kind)
					return write(w)
				})
				if err != nil || w.Body.String() != body {
					t.Fatalf("%v, and %d bytes arrive of %d", err, w.Body.Len(), len(body))
				}
				if got := left(t, h); got != max(1000-c.used, 0) {
					t.Errorf("%d are left, want %d", got, max(1000-c.used, 0))
				}
			})
		}
	}
}

// An answer that says that it is not encoded is read.
func TestAnswersThatAreNotEncodedAreRead(t *testing.T) {
	for coding, want := range map[string]int{"identity": 971, "Identity": 971, "": 971, "gzip": 900, "identity, gzip": 900} {
		h := settled(t, openAI, 0)
		_, err := handlertest.Ask(t.Context(), h, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", whole)
			w.Header().Set("Content-Encoding", coding)
			_, err := io.WriteString(w, `{"usage":{"total_tokens":29}}`)
			return err
		})
		if got := left(t, h); got != want || err != nil {
			t.Errorf("%q: %d are left, want %d; %v", coding, got, want, err)
		}
	}
}

// A zone that reads answers asks the upstream for plain ones, and a compressed one keeps its cost.
func TestAnswersThatAreReadAreNotCompressed(t *testing.T) {
	for measure, want := range map[string]string{openAI: "", "bytes": "gzip"} {
		h := settled(t, measure, 0)
		_, w, err := handlertest.Get(h, "/", "192.0.2.1", caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if got := r.Header.Get("Accept-Encoding"); got != want {
				t.Errorf("settle %s: the upstream is asked for %q, want %q", measure, got, want)
			}
			w.Header().Set("Content-Type", whole)
			w.Header().Set("Content-Encoding", "br")
			_, err := io.WriteString(w, `{"usage":{"total_tokens":1}}`)
			return err
		}).ServeHTTP, "Accept-Encoding", "gzip")
		if err != nil || w.Code != http.StatusOK {
			t.Fatal(w.Code, err)
		}
		if got := left(t, h); measure == openAI && got != 900 {
			t.Errorf("%d are left after a compressed answer, want 900", got)
		}
	}
}

// Requests at once go over a limit of tokens by at most what their estimates were too low.
func TestQuestionsAtOnceGoOverByWhatEstimatesWereTooLow(t *testing.T) {
	const amount, estimate, used = 10_000, 500, 800
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
		{Name: "z", Per: "everyone", Limits: []config.Limit{{Amount: amount, Window: handlertest.Hour}}, Cost: fmt.Sprint(estimate), Settle: openAI},
	}})
	var mu sync.Mutex
	var passed int
	var all, asked sync.WaitGroup
	asked.Add(100)
	for range 100 {
		all.Go(func() {
			arrived := sync.OnceFunc(asked.Done)
			defer arrived()
			_, _ = handlertest.Ask(t.Context(), h, func(w http.ResponseWriter, _ *http.Request) error {
				mu.Lock()
				passed++
				mu.Unlock()
				arrived()
				asked.Wait() // all are decided before the first is answered
				w.Header().Set("Content-Type", whole)
				_, err := fmt.Fprintf(w, `{"usage":{"total_tokens":%d}}`, used)
				return err
			})
		})
	}
	all.Wait()
	if passed != amount/estimate {
		t.Errorf("%d of 100 pass, want %d", passed, amount/estimate)
	}
	if over := passed*used - amount; over > passed*(used-estimate) {
		t.Errorf("%d tokens over the limit, want at most %d", over, passed*(used-estimate))
	}
	if w, err := handlertest.Ask(t.Context(), h, handlertest.Answering(200)); !handlertest.IsRefused(w, err) {
		t.Error("another question passes")
	}
}
