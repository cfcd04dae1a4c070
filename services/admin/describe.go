package admin

import (
	"bytes"
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

// description is the OpenAPI document of the API for visitors, sites and operators. Its info.description says what else is served and not in it: pages, and
// what machines ask of each process. A test holds that against the code (services/verify).
//
//go:embed openapi.json
var description []byte

func (s *Service) describe(c echo.Context) error {
	return httpapi.WriteRawJSON(c, http.StatusOK, description)
}

// Description is that document, as it is served.
func Description() []byte { return bytes.Clone(description) }
