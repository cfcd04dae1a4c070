package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
		Queue: "main", Keys: keys, WaitingRoom: "https://wait.example/", Site: "https://shop.example",
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
	r.AddCookie(&http.Cookie{Name: gate.CookieName("main"), Value: token})
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)

	// Output:
	// 303 https://wait.example/?queue=main&return=https%3A%2F%2Fshop.example%2Fcheckout%2F7
	// 200 welcome, ticket 42
}
