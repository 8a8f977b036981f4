package sim

// Texts of the library's errors, for distinctions that errors.Is cannot make. They
// have to change with the library.
const (
	textNoAnswer = "no answer from the servers"     // the session's timeout has passed
	textDeleted  = "deleted by somebody else"       // the place of a lease
	textMayOpen  = "may be opened with this member" // Wait was canceled while disconnected
)
