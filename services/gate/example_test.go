package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/pass"
)

// A site on echo has the gate of pkg/gate as middleware, and needs no service beside it.
func Example_echo() {
	list, _ := pass.GenerateKeys() // in earnest, the list that the waiting room uses
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
	e := echo.New()
	e.Any(gate.ArrivePath("main"), echo.WrapHandler(g.Arrive()))
	shop := e.Group("/checkout", echo.WrapMiddleware(g.Wrap))
	shop.GET("/:id", func(c echo.Context) error {
		entry, _ := gate.EntryFrom(c.Request().Context())
		return c.String(http.StatusOK, fmt.Sprintf("%s, ticket %d", c.Param("id"), entry.Ticket))
	})

	ask := func(name, value string) {
		r := httptest.NewRequest(http.MethodGet, "/checkout/7", nil)
		r.Header.Set(name, value)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Location")+w.Body.String())
	}
	ask("Accept", "text/html")
	now := time.Now()
	token, err := keys.SignEntry(pass.Entry{Queue: "main", Visitor: "somebody", Ticket: 42, AdmittedMs: now.UnixMilli(), ExpiresMs: now.Add(time.Minute).UnixMilli()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask("Authorization", "Bearer "+token)

	// Output:
	// 303 https://wait.example/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%2Fcheckout%2F7
	// 200 7, ticket 42
}
