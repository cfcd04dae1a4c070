package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/pass"
)

func Example() {
	list, _ := pass.GenerateKeys() // in earnest, the list that the waiting room uses
	keys, err := pass.ParseKeys(list)
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := gate.New(gate.Config{
		Queue: "main", Keys: keys, WaitingRoom: "https://wait.example", Site: "https://shop.example",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/checkout/", g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry, _ := gate.EntryFrom(r.Context())
		_, _ = fmt.Fprintf(w, "welcome, ticket %d", entry.Ticket)
	})))

	// A browser comes in from the street.
	r := httptest.NewRequest("GET", "/checkout/7", nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Location"))

	// It waited, and comes back with an entry token.
	now := time.Now()
	token, err := keys.SignEntry(pass.Entry{
		Queue: "main", Visitor: "somebody", Ticket: 42,
		AdmittedMs: now.UnixMilli(), ExpiresMs: now.Add(5 * time.Minute).UnixMilli(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+token) // a program; the waiting page takes a browser to gate.ArrivePath
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)

	// Output:
	// 303 https://wait.example/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%2Fcheckout%2F7
	// 200 welcome, ticket 42
}

// A browser comes back from the waiting page: it hands the token over and goes where it was going.
func ExampleGate_Arrive() {
	list, _ := pass.GenerateKeys()
	keys, err := pass.ParseKeys(list)
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := gate.New(gate.Config{Queue: "main", Keys: keys, WaitingRoom: "https://wait.example", Site: "https://shop.example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(gate.ArrivePath("main"), g.Arrive())

	// What the waiting page does, without scripts: a form.
	back, _ := gate.ReturnAddress("https://shop.example/checkout/7?size=M", []string{"https://shop.example"})
	action, to, err := gate.Arrival("main", back)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	token, _ := keys.SignEntry(pass.Entry{Queue: "main", Visitor: "somebody", Ticket: 42, AdmittedMs: now.UnixMilli(), ExpiresMs: now.Add(5 * time.Minute).UnixMilli()})
	form := url.Values{"token": {token}, "to": {to}}
	r := httptest.NewRequest("POST", action, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	session := w.Result().Cookies()[0]
	fmt.Println(w.Code, session.Name, session.MaxAge)

	r = httptest.NewRequest("GET", w.Header().Get("Location"), nil)
	r.AddCookie(session)
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Location"))

	// Output:
	// 303 __Host-soonbeon.gate-main 300
	// 303 /checkout/7?size=M
}
