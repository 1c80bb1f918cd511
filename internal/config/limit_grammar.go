package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/limiter"
)

func (z *Zone) unmarshalLimit(d *caddyfile.Dispenser) error {
	words := d.RemainingArgs()
	if isConcurrent(words) {
		return z.unmarshalConcurrent(d, words)
	}
	limit, err := parseLimit(words)
	if err != nil {
		return d.Errf("limit: %w", err)
	}
	z.Limits = append(z.Limits, limit)
	return nil
}

// parseLimit parses the words after `limit`.
func parseLimit(args []string) (Limit, error) {
	if len(args) == 0 {
		return Limit{}, errors.New("amount and window are missing: write limit 5/1m")
	}
	if args[0] == limitShadow && len(args) > 1 {
		return Limit{}, fmt.Errorf("shadow stands behind the limit: write limit %s shadow", strings.Join(args[1:], " "))
	}
	if lines, found := strings.CutSuffix(strings.Join(args, " ")+" ", ", "); strings.Contains(lines, ", ") || strings.Contains(lines, " and ") || found {
		return Limit{}, fmt.Errorf("a line has one limit: write limit %s, each on a line of its own", strings.NewReplacer(", ", " and limit ", " and ", " and limit ").Replace(strings.TrimSpace(lines)))
	}
	limit, rest, err := parseRate(args)
	for err == nil && len(rest) > 0 {
		rest, err = limit.parseWord(rest)
	}
	if err == nil {
		_, err = limit.compile()
	}
	return limit, err
}

// limitShadow is the word of a limit that refuses nothing.
const limitShadow = "shadow"

// The words after a rate: those without a value, and those with one.
var (
	limitFlags  = []string{"sliding", "fixed", "token_bucket", limitShadow}
	limitValues = []string{"burst", "slots", "timezone", "name"}
)

// parseWord parses the first of the words after a rate, with its value if it takes one, and returns
// the remaining words.
func (l *Limit) parseWord(words []string) ([]string, error) {
	word := words[0]
	switch {
	case word == limitShadow && l.Shadow:
		return nil, errors.New("shadow is given twice: write it once")
	case word == limitShadow:
		l.Shadow = true
		return words[1:], nil
	case slices.Contains(limitFlags, word):
		if l.Algorithm != "" {
			return nil, fmt.Errorf("%s after %s: a limit has one algorithm", word, l.Algorithm)
		}
		l.Algorithm = word
		return words[1:], nil
	case !slices.Contains(limitValues, word):
		return nil, fmt.Errorf("unknown word %q: %s", word, insteadOfWord(word))
	case len(words) < 2:
		return nil, fmt.Errorf("%s lacks its value", word)
	}
	return words[2:], l.setValue(word, words[1])
}

// setValue sets the field of a word. It rejects zero values, because in the struct they mean the
// default.
func (l *Limit) setValue(word, value string) (err error) {
	var n int64
	text, numeric, parse := &l.Name, true, caddyconf.ParseCount
	set := l.Slots != 0
	switch word {
	case "name":
		set, numeric = l.Name != "", false
	case "timezone":
		text, set, numeric = &l.Timezone, l.Timezone != "", false
	case "burst":
		set, parse = l.Burst != 0, caddyconf.ParseUnits
	}
	if numeric {
		n, err = parse(value)
	}
	switch {
	case set:
		return fmt.Errorf("%s is given twice: write it once", word)
	case err != nil:
		return fmt.Errorf("%s must be a whole number, got %q", word, value)
	case numeric && n < 1:
		return fmt.Errorf("%s must be at least 1, got %d", word, n)
	case !numeric && value == "" && word == "timezone":
		return errors.New("timezone must not be empty: expected a name such as Europe/Berlin")
	case !numeric && value == "":
		return errors.New("name must not be empty")
	case !numeric:
		*text = value
	case word == "burst":
		l.Burst = n
	default:
		l.Slots = int(n)
	}
	return nil
}

// insteadOfWord returns what to write in place of an unknown word after a rate.
func insteadOfWord(word string) string {
	return cmp.Or(instead("rate", strings.ReplaceAll(word, "-", "_")), "write burst <n>, sliding, fixed, token_bucket, slots <n>, timezone <name>, name <name> or shadow")
}

// The forms of a rate: `5/1m`, and others that are unambiguous, such as `10r/s`, `5/min` and `100
// requests per minute`.
var (
	rateForm = regexp.MustCompile(`^([^/ ]*?) ?(?:r|reqs?|requests?)?(?: ?/ ?| per )(\S*)(?: (.*))?$`)
	unitForm = regexp.MustCompile(`^([0-9_]*)(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)$`)
	units    = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour} // m as everywhere in a Caddyfile; not a month
)

// parseRate parses the amount and the window at the beginning of words, and returns the remaining
// words.
func parseRate(words []string) (Limit, []string, error) {
	limit, rest, problem := readRate(words)
	if problem == "" {
		return limit, rest, nil
	}
	if other := instead("limit", strings.Join(words, " ")); other != "" {
		return Limit{}, nil, fmt.Errorf("for requests at the same time, write limit %s", other)
	}
	if guess := guessRate(words); guess != "" {
		return Limit{}, nil, fmt.Errorf("%s: write %s", problem, guess)
	}
	return Limit{}, nil, fmt.Errorf("%s: %s", problem, expectedRate)
}

// expectedRate is the hint if it isn't clear which rate was meant.
const expectedRate = "expected how many pass in which time, such as 5/1m"

// readRate is parseRate with the problem as a text, or "".
func readRate(words []string) (l Limit, rest []string, problem string) {
	amount, window, end := words[0], "", len(words)
	if i := slices.IndexFunc(words, func(word string) bool { return word == "" || strings.Contains(word, " ") }); i >= 0 { // a name
		end = i
	}
	if m := rateForm.FindStringSubmatch(strings.Join(words[:end], " ")); m != nil {
		amount, window, rest = m[1], m[2], append(strings.Fields(m[3]), words[end:]...)
	}
	if _, err := caddyconf.ParseCount(window); err == nil && len(rest) > 0 && unitForm.MatchString(rest[0]) { // 1 minute
		window, rest = window+rest[0], rest[1:]
	}
	if window == "" {
		amount, _, _ = strings.Cut(amount, "/")
		return l, nil, fmt.Sprintf("a window is missing in %q", amount)
	}
	n, err := caddyconf.ParseUnits(amount)
	if _, errDuration := caddy.ParseDuration(amount); errDuration == nil && err != nil {
		return l, nil, fmt.Sprintf("amount must be a whole number, got %q: with settle duration, it is in milliseconds", amount)
	}
	if err != nil {
		return l, nil, fmt.Sprintf("amount must be a whole number, got %q", amount)
	}
	duration, ok := parseWindow(window)
	if window == "month" {
		duration, ok = limiter.Month, true
	}
	if !ok {
		return l, nil, fmt.Sprintf("window must be a duration such as 10s, 1m, 24h or 1d, got %q", window)
	}
	return Limit{Amount: n, Window: caddy.Duration(duration)}, rest, ""
}

// parseWindow parses a duration. It may be a unit alone, or spelled out.
func parseWindow(s string) (time.Duration, bool) {
	if duration, err := caddy.ParseDuration(s); err == nil {
		return duration, true
	}
	m := unitForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := caddyconf.ParseCount(cmp.Or(m[1], "1"))
	unit := units[m[2][0]]
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// The forms of a rate as others write it, such as `5rps`, `0.5/1s`, `1k/1m`, `5 1m`, `5-M` or
// `rate=10r/s`; and the other way round, such as `minute 60`.
var (
	guessForm    = regexp.MustCompile(`^(?:rate=)?([0-9][0-9_.,]*)([kKM]?)(?: ?(?:r|reqs?|requests?)\b)?(?: ?(?:per|every|in) |[ /:-])* ?([0-9]*) ?([a-zA-Z]*)(?: (.*))?$`)
	reversedForm = regexp.MustCompile(`^([a-z]+|[0-9]+[a-z]+)[ /=:]+([0-9_]+)$`)
	groupedForm  = regexp.MustCompile(`^[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+|(?:\.[0-9]{3}){2,})$`)         // 1,000 or 1.000.000
	decimalForm  = regexp.MustCompile(`^(?:0\.[0-9]{1,6}|[0-9]+(?:\.[0-9]{1,2})?|[0-9]+(?:_[0-9]+)+)$`) // and not 5.000 or 5,5, which are ambiguous
)

// Units that only others have.
var (
	unitDays = map[string]int{"mo": 30, "month": 30, "months": 30, "y": 365, "year": 365, "years": 365}
	perUnit  = map[string]string{"rps": "s", "qps": "s", "rpm": "m", "rph": "h"}
)

// guessRate returns the rate that words in another form certainly mean, or "". A time as the amount
// becomes milliseconds, as for `settle duration`.
func guessRate(words []string) string {
	text := strings.Join(words, " ")
	if m := reversedForm.FindStringSubmatch(text); m != nil {
		text = m[2] + "/" + m[1]
	}
	first, second, _ := strings.Cut(text, "/")
	if used, err := caddy.ParseDuration(first); err == nil && used >= time.Millisecond && second != "" {
		text = strconv.FormatInt(used.Milliseconds(), 10) + "/" + second
	}
	m := guessForm.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	amount, window, rest := guessAmount(m[1], m[2]), guessWindow(m[3], strings.ToLower(m[4])), strings.Fields(m[5])
	length, ok := parseWindow(window)
	if amount == nil || !ok || length <= 0 || m[3]+m[4] == "" && (m[2] == "M" || !amount.IsInt()) || m[4] == "M" && second != "" {
		return ""
	}
	for _, longer := range []string{window, "1m", "1h", "1d"} {
		duration, _ := parseWindow(longer)
		whole := new(big.Rat).Mul(amount, big.NewRat(int64(duration), int64(length)))
		if duration < length || !whole.IsInt() || !whole.Num().IsInt64() {
			continue
		}
		guess := grouped(whole.Num().String()) + "/" + longer
		if _, err := parseLimit(append([]string{guess}, rest...)); err == nil {
			return strings.Join(append([]string{guess}, rest...), " ")
		}
		if _, err := parseLimit([]string{guess}); err != nil || unicode.IsDigit(rune(rest[0][0])) {
			return ""
		}
		return guess // the rest gets an error of its own
	}
	return ""
}

// guessAmount returns the amount in digits, with k or M behind it, or nil if it is ambiguous.
func guessAmount(digits, suffix string) *big.Rat {
	if groupedForm.MatchString(digits) {
		digits = strings.NewReplacer(",", "", ".", "").Replace(digits)
	}
	if !decimalForm.MatchString(digits) {
		return nil
	}
	amount, ok := new(big.Rat).SetString(strings.ReplaceAll(digits, "_", ""))
	if factor := map[string]int64{"k": 1e3, "K": 1e3, "M": 1e6}[suffix]; ok && factor != 0 {
		amount.Mul(amount, big.NewRat(factor, 1))
	}
	return amount
}

// grouped puts _ between the thousands of a long number.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "_" + digits[i:]
	}
	return digits
}

// guessWindow returns the window that a number and a unit mean, of which one may be missing, or "".
func guessWindow(number, unit string) string {
	n, err := strconv.Atoi(cmp.Or(number, "1"))
	switch days := unitDays[unit]; {
	case err != nil:
		return ""
	case days > 0:
		return strconv.Itoa(n*days) + "d"
	case unit == "" && number == "":
		return "1m"
	case unit == "":
		return strconv.Itoa(n) + "s"
	case unitForm.MatchString(unit):
		return strconv.Itoa(n) + unit[:1]
	case perUnit[unit] != "":
		return strconv.Itoa(n) + perUnit[unit]
	}
	return ""
}
