package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

const filesAt = "/queue/page/"

// kinds are the files that may be beside a template: what a page shows, and nothing that runs.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg",
	".webp": "image/webp", ".woff2": "font/woff2",
}

// maxFile is the largest file of the operators, in bytes: everybody who waits loads it.
const maxFile = 512 << 10

// files are what the page loads, in memory, by name. version changes with any of them, so each is kept by browsers for good.
type files struct {
	version string
	byName  map[string]file
}

type file struct {
	kind       string
	plain      []byte
	compressed []byte // nil where that gains nothing
}

// readFiles reads those that are built in, and those of the operators' folder where there is one.
func readFiles(own fs.FS) (*files, error) {
	f := &files{byName: map[string]file{}}
	static, err := fs.Sub(builtin, "static")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, folder := range []fs.FS{static, own} {
		if folder == nil {
			continue
		}
		entries, err := fs.ReadDir(folder, ".")
		if err != nil {
			return nil, fmt.Errorf("the folder can't be read: %w", err)
		}
		for _, e := range entries {
			kind, ok := kinds[path.Ext(e.Name())]
			if e.IsDir() || !ok || folder == own && path.Ext(e.Name()) == ".js" {
				continue // template.html, words, and what is none of ours
			}
			b, err := fs.ReadFile(folder, e.Name())
			switch _, taken := f.byName[e.Name()]; {
			case err != nil:
				errs = append(errs, err)
			case taken:
				errs = append(errs, fmt.Errorf("%s: a file of this name is built in; call it something else", e.Name()))
			case len(b) > maxFile:
				errs = append(errs, fmt.Errorf("%s: it has %d bytes, and everybody who waits loads it: at most %d", e.Name(), len(b), maxFile))
			default:
				f.byName[e.Name()] = file{kind: kind, plain: b, compressed: compress(b)}
			}
		}
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f.byName)) {
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(f.byName[name].plain))
		h.Write(f.byName[name].plain)
	}
	f.version = hex.EncodeToString(h.Sum(nil)[:6])
	return f, errors.Join(errs...)
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(b)
	_ = w.Close()
	if out.Len() >= len(b)*9/10 {
		return nil
	}
	return out.Bytes()
}

// pages are compressed anew for each person, so fast.
var gzips = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, 5); return w }}

// compressFast is body compressed, where the browser takes that.
func compressFast(c echo.Context, body []byte) []byte {
	if !takesGzip(c.Request().Header.Values("Accept-Encoding")) {
		return nil
	}
	w := gzips.Get().(*gzip.Writer)
	defer gzips.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(body)
	_ = w.Close()
	return out.Bytes()
}

// url is where name is loaded from; "" where there is no such file.
func (f *files) url(name string) string {
	if _, ok := f.byName[name]; !ok {
		return ""
	}
	return filesAt + f.version + "/" + name
}

// file serves one. A page of an earlier version finds what there is now under its address, for as long as it asks: not kept then.
func (s *Service) file(c echo.Context) error {
	f, ok := s.files.byName[c.Param("name")]
	if !ok {
		return httpapi.Problemf(httpapi.NotFound, "the waiting page has no such file")
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-cache")
	if c.Param("version") == s.files.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Content-Security-Policy", "default-src 'none'") // a picture opened by itself runs nothing
	return write(c, http.StatusOK, f.kind, f.plain, f.compressed)
}

// write answers with body, or with its compressed form where there is one and the browser takes it.
func write(c echo.Context, status int, kind string, body, compressed []byte) error {
	h := c.Response().Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept-Encoding")
	if compressed != nil && takesGzip(c.Request().Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = compressed
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.Response().WriteHeader(status)
	_, _ = c.Response().Write(body) // fails only when nobody is there to be told
	return nil
}

// takesGzip reads Accept-Encoding. Whoever gives gzip a weight at all, and not 0, gets it.
func takesGzip(given []string) bool {
	for _, line := range given {
		for part := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(part, ";")
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") {
				continue
			}
			q, ok := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			v, err := strconv.ParseFloat(q, 64)
			return !ok || err != nil || v > 0
		}
	}
	return false
}
