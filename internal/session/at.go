package session

// At is an address: what a recipe of a Client keeps at a path. The same address is the same lock,
// queue or barrier, so it is a key, too.
type At struct {
	Client *Client
	Path   string // as the user gave it
	Recipe string
}

// Abs returns the path with the Client's prefix.
func (a At) Abs() string { return a.Client.Abs(a.Path) }

// Fail wraps an error for the user.
func (a At) Fail(op string, err error) error { return a.Client.Fail(op, a.Path, err) }
