package httpapi

import (
	"context"
	"net"
	"net/http"
)

// connKey finds the connection in the context of its requests.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// LimitUnread bounds how much of the answer the kernel keeps for a client that does not read: about n bytes, and what the client's
// own kernel takes. Beyond that a write waits, for as long as its deadline says. It holds as long as the connection, and
// does nothing for a request that came in another way than by a Server.
func LimitUnread(r *http.Request, n int) {
	if c, ok := r.Context().Value(connKey{}).(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = c.SetWriteBuffer(n) // then it is the kernel's own limit that holds
	}
}
