package page

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
)

// dispatch asks a handler of this process what a browser without scripts can't ask by itself. It is the public interface, so
// whatever holds for that holds for this: limits, metrics, problem documents.
func dispatch(to http.Handler, from *http.Request, method, address string, h http.Header, body []byte) *recorded {
	out := &recorded{header: http.Header{}, status: http.StatusOK}
	u, err := url.ParseRequestURI(address)
	if err != nil { // ours, with a queue id in it
		out.status = http.StatusInternalServerError
		return out
	}
	in := &http.Request{
		Method: method, URL: u, RequestURI: address, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Host: from.Host, RemoteAddr: from.RemoteAddr,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	to.ServeHTTP(out, in.WithContext(from.Context()))
	return out
}

// recorded is an answer that goes nowhere. It is a http.ResponseWriter.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(status int)      { r.status = status }
func (r *recorded) Write(b []byte) (int, error) { return r.body.Write(b) }
