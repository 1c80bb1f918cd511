package blocklist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// fetchTimeout bounds how long a fetch takes.
const fetchTimeout = time.Minute

// CheckURL returns an error if lists aren't fetched from a URL: nobody between the server and us
// may add bans.
func CheckURL(text string) error {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" {
		return errors.New("expected a URL such as https://www.spamhaus.org/drop/drop.txt")
	}
	if host := at.Hostname(); at.Scheme == "https" || at.Scheme == "http" &&
		(host == "localhost" || host == "127.0.0.1" || host == "::1") {
		return nil
	}
	return errors.New("expected https, or http to 127.0.0.1 or localhost")
}

func checkRedirect(to *http.Request, via []*http.Request) error {
	if len(via) > 3 {
		return errors.New("redirects more than 3 times")
	}
	if via[0].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return errors.New("redirects from https to " + to.URL.Scheme + ", where others can change it")
	}
	return CheckURL(to.URL.String())
}

// readFile reads a file if it has changed since the last time.
func (l *List) readFile(path string) error {
	info, err := os.Stat(path)
	if err == nil && l.seen != nil && info.ModTime().Equal(l.seen.ModTime()) && info.Size() == l.seen.Size() {
		l.renew()
		return nil
	}
	p, info, err := read(path)
	if err != nil {
		return err
	}
	at := time.Now()
	if path != l.options.Source {
		at = info.ModTime() // when it was fetched
	}
	l.take(p, at)
	l.seen = info
	return nil
}

// read reads a file.
func read(path string) (p parsed, info fs.FileInfo, err error) {
	text, info, err := textfile.Read(path, maxSize)
	if err != nil {
		return p, info, err
	}
	if p, err = parse(text); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return p, info, err
}

// fetch gets the list, unless the server still has the version in force.
func (l *List) fetch() error {
	ctx, cancel := context.WithTimeout(l.ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.options.Source, nil)
	if err != nil {
		return err
	}
	for ask, field := range map[string]string{"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"} {
		if value := l.header.Get(field); value != "" {
			request.Header.Set(ask, value)
		}
	}
	response, err := l.client.Do(request)
	if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
		return urlErr.Err // without the URL, in which a key may be
	} else if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotModified:
		l.renew()
		_ = os.Chtimes(l.options.cache(), time.Time{}, time.Now()) // else a restart fetches it earlier
		return nil
	case http.StatusOK:
		return l.replace(response)
	}
	return fmt.Errorf("the server answers with status %d", response.StatusCode)
}

// replace puts the version that a server sends into force, and keeps it on disk.
func (l *List) replace(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxSize+1))
	if err != nil {
		return err
	}
	p, err := parse(text)
	if err == nil {
		err = l.confirm(p.bans)
	}
	if err != nil {
		return err
	}
	l.take(p, time.Now())
	l.header = response.Header
	err = textfile.Edit(l.options.cache(), maxSize, func([]byte) ([]byte, error) { return text, nil })
	if err == nil {
		err = os.Chtimes(l.options.cache(), time.Time{}, time.Now()) // Edit doesn't write the same text again
	}
	if err != nil {
		l.log.Warn("keeping the block list on disk failed; after a restart it is fetched again", zap.Error(err))
	}
	return nil
}
