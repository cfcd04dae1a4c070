package page

import "sync"

// shelf keeps pages as they are sent. At an opening a great many people ask for the same few: they differ by language, by where people
// come from, and by whether they hold a cookie, and by nothing of a person. What is asked for by somebody who makes addresses up
// costs its rendering, and at most pushes the others off for a moment.
type shelf struct {
	mu    sync.RWMutex
	pages map[shelved]*rendered
}

// shelved is all that a page with scripts is made of.
type shelved struct {
	queue, back, lang, tag, action, to, reentry string
	resume                                      bool
}

type rendered struct{ body, compressed []byte }

const (
	maxShelved     = 512
	maxShelvedBack = 512 // bytes of a return address; longer ones are not kept
)

func (s *shelf) get(k shelved) *rendered {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pages[k]
}

func (s *shelf) put(k shelved, p *rendered) {
	if len(k.back) > maxShelvedBack {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pages) >= maxShelved || s.pages == nil {
		s.pages = map[shelved]*rendered{}
	}
	s.pages[k] = p
}
