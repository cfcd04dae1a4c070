package page

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

//go:embed lang look static
var builtin embed.FS

// Config of a Service.
type Config struct {
	// Find is a queue as its operators set it; false where there is none, or none any more. It is called for each request, from
	// many goroutines. *catalog.Follower.Get is one.
	Find func(queue.ID) (*queue.Entry, bool)

	// ReturnOrigins are the sites that people may be sent back to, each https://host[:port], or http on this host. The first one is
	// meant where return= is a path. With none, a path is one of the waiting room's own host.
	ReturnOrigins []string

	// Dir is the folder of the operators' look: template.html, style.css, and files beside them; "" for the look that is built in.
	Dir string

	Now func() time.Time // default time.Now
}

// Service serves the waiting page. It holds nothing but pages, and needs no stop: its requests end with the server's.
type Service struct {
	cfg     Config
	origins []string
	words   *languages
	look    *look
	files   *files
	shelf   shelf
	asked   *echo.Echo // where GET /queue/position is
}

// New checks cfg, and the folder of the look: each state is rendered in each language. The error tells every mistake, with file and line
// where it is in the folder.
func New(cfg Config) (*Service, error) {
	if cfg.Find == nil {
		return nil, errors.New("page: queues are needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg}
	var errs []error
	for _, o := range cfg.ReturnOrigins {
		origin, err := gate.Origin(o)
		if err != nil {
			errs = append(errs, fmt.Errorf("return origin %.80q: %w", o, err))
			continue
		}
		s.origins = append(s.origins, origin)
	}
	folders := []fs.FS{builtin}
	var own fs.FS
	if cfg.Dir != "" {
		own = os.DirFS(cfg.Dir)
		folders = append(folders, own)
	}
	var err error
	if s.words, err = readLanguages(folders...); err != nil {
		errs = append(errs, err)
	}
	if s.files, err = readFiles(own); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, s.wrong(err)
	}
	if s.look, err = s.readLook(own); err != nil {
		return nil, s.wrong(err)
	}
	return s, nil
}

func (s *Service) wrong(err error) error {
	if s.cfg.Dir == "" {
		return fmt.Errorf("the waiting page: %w", err)
	}
	return fmt.Errorf("the waiting page in %s: %w", s.cfg.Dir, err)
}

// Register adds the page to e, on which GET /queue/position is, too, for whoever has no scripts.
func (s *Service) Register(e *echo.Echo) {
	s.asked = e
	e.GET("/queue/wait", s.wait)
	e.GET("/queue/info", s.info)
	e.GET(filesAt+":version/:name", s.file)
}

// RegisterForm adds the form to e, on which POST /queue/enter is.
func (s *Service) RegisterForm(e *echo.Echo) {
	e.POST("/queue/enter/form", func(c echo.Context) error { return s.form(c, e) })
}

// RegisterPreview adds the preview to e, which is not for the public.
func (s *Service) RegisterPreview(e *echo.Echo) {
	e.GET("/queue/preview", s.preview)
	e.GET(filesAt+":version/:name", s.file)
}
