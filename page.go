package tally

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/page"
)

// Page is what people see whose browser's request is refused: a page that says when they can come
// back, in the language of their browser, with the reference of the refusal. It is sent where no
// route handles the error, to browsers that load a page; what others get has no body. The name
// and the contact are on the page of a challenge as well.
type Page struct {
	// Send no page with a refusal. The challenge has one all the same.
	Disabled bool `json:"disabled,omitempty"`

	// The name of the site, of up to 100 characters. Default: none is shown.
	Name string `json:"name,omitempty"`

	// Who can be asked: an e-mail address or a URL, which becomes a link, or another text, of
	// up to 200 characters. Default: nobody is named.
	Contact string `json:"contact,omitempty"`

	run *enforce.Pages
}

// How many characters the texts of a page have at most, so that it stays small.
const (
	maxPageName    = 100
	maxPageContact = 200
)

// provision checks the option. It may be called several times.
func (p *Page) provision() error {
	if p == nil {
		return nil
	}
	if p.Disabled && (p.Name != "" || p.Contact != "") {
		return errors.New("page: disabled, and has a name or a contact: remove one of them")
	}
	if err := checkPageText("name", p.Name, maxPageName); err != nil {
		return err
	}
	p.run = &enforce.Pages{Disabled: p.Disabled}
	p.run.Refused.Site = page.Site{Name: p.Name, Contact: p.Contact}
	return checkPageText("contact", p.Contact, maxPageContact)
}

func checkPageText(option, text string, most int) error {
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Errorf("page: %s: must have at most %d characters, got %d", option, most, n)
	}
	for _, c := range text {
		if c == utf8.RuneError || unicode.IsControl(c) {
			return fmt.Errorf("page: %s: must be one line of UTF-8 without control characters, got %q", option, text)
		}
	}
	return nil
}
