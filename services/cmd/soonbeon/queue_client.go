package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// operatorFlags say whom to ask, and as whom.
type operatorFlags struct {
	Admin string `help:"Address of the private port." default:"127.0.0.1:8081"`
	Token string `help:"Secret of an operator. Better by the environment. Default: the one in the data folder, where there is one." env:"SOONBEON_OPERATOR_TOKEN"`
	Data  string `help:"Folder of the embedded log, which holds the secret of the operator on this machine." default:"./data" type:"path"`
	JSON  bool   `help:"Print the API's JSON." name:"json" env:"-"`
}

// askTimeout is above what the server takes for a deletion.
const askTimeout = 20 * time.Second

// reply is what the API answered.
type reply struct {
	header http.Header
	body   []byte
}

// refused is a problem document.
type refused struct {
	Code     string   `json:"code"`
	Title    string   `json:"title"`
	Detail   string   `json:"detail"`
	Mistakes []string `json:"mistakes"`
}

func (r *refused) Error() string {
	what := r.Detail
	switch {
	case len(r.Mistakes) > 0:
		what = "nothing was changed:\n" + strings.Join(r.Mistakes, "\n")
	case r.Code == "credential_missing", r.Code == "credential_forbidden":
		what = "the operator's secret is not accepted: " + r.Detail + "; give one by --token or SOONBEON_OPERATOR_TOKEN"
	case what == "":
		what = r.Title
	}
	return what + " (docs/runbook.md#" + r.Code + ")"
}

func refusal(err error) *refused {
	var r *refused
	errors.As(err, &r)
	return r
}

// about says what an error is about.
func about(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

func pathEscape(id string) string { return url.PathEscape(id) }

// ask calls the API. The error for an answer of 400 and above is a *refused. The body, where there is one, is JSON.
func (f *operatorFlags) ask(ctx context.Context, method, path string, body []byte, ifMatch string) (*reply, error) {
	token, err := f.secret()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(f.Admin)
	if err != nil {
		return nil, fmt.Errorf("--admin: host:port is wanted: %w", err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" { // what it listens on is not where to ask
		host = "127.0.0.1"
	}
	address := net.JoinHostPort(host, port)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if ifMatch != "" {
		req.Header.Set("If-Match", ifMatch)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			return nil, fmt.Errorf("the private port at %s does not answer: %w; does the process run, and is --admin its address?", address, op.Err)
		}
		return nil, err
	}
	defer res.Body.Close()
	r := &reply{header: res.Header}
	if r.body, err = io.ReadAll(res.Body); err != nil {
		return nil, fmt.Errorf("the answer broke off, so it is not known whether anything was changed: %w", err)
	}
	if res.StatusCode < 400 {
		return r, nil
	}
	var problem refused
	if err := json.Unmarshal(r.body, &problem); err != nil || problem.Code == "" {
		return nil, fmt.Errorf("%s answers %s, which soonbeon does not: is --admin the private port of a soonbeon?", address, res.Status)
	}
	return nil, &problem
}

// secret is the operator's: what is given, or the one in the data folder.
func (f *operatorFlags) secret() (string, error) {
	if f.Token != "" {
		return f.Token, nil
	}
	file := filepath.Join(f.Data, standalone.OperatorToken)
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no operator's secret: give one by --token or SOONBEON_OPERATOR_TOKEN, as SOONBEON_OPERATORS of the process has it (there is no %s)", file)
	case err != nil:
		return "", fmt.Errorf("the operator's secret: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (r *reply) document() (*catalog.Document, error) {
	var d catalog.Document
	if err := json.Unmarshal(r.body, &d); err != nil {
		return nil, fmt.Errorf("the answer can't be read: %w", err)
	}
	return &d, nil
}

// change is one change as the API tells it.
type change struct {
	Who    string            `json:"who"`
	At     time.Time         `json:"at"`
	Action string            `json:"action"`
	From   *catalog.Document `json:"from"`
	To     *catalog.Document `json:"to"`
}

func (r *reply) changes() ([]change, error) {
	var all struct {
		Changes []change `json:"changes"`
	}
	if err := json.Unmarshal(r.body, &all); err != nil {
		return nil, fmt.Errorf("the answer can't be read: %w", err)
	}
	return all.Changes, nil
}

// printJSON prints what the API answered, for people to read too.
func printJSON(out io.Writer, body []byte) error {
	v := jsontext.Value(body).Clone()
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("the answer can't be read: %w", err)
	}
	_, err := fmt.Fprintf(out, "%s\n", v)
	return err
}
