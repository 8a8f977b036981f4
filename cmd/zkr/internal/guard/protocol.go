//go:build unix

package guard

// request is what the caller sends to the guard: one JSON object a line. One field is set.
type request struct {
	Run      *run  `json:",omitempty"`
	Deadline int64 `json:",omitempty"` // by now()
	Signal   int   `json:",omitempty"` // for the command's process group
	Kill     bool  `json:",omitempty"` // kill all that the command has started
}

// run says what to start. Its texts are bytes: JSON would change what is not UTF-8.
type run struct {
	Path       []byte // of the executable
	Args, Env  [][]byte
	Grace      int64 // ns from SIGTERM to SIGKILL
	Deadline   int64 // by now()
	Foreground bool  // the command's group becomes the terminal's foreground group
}

func convert[To, From string | []byte](from []From) []To {
	to := make([]To, len(from))
	for i, text := range from {
		to[i] = To(text)
	}
	return to
}

// report is what the guard sends to the caller: one JSON object a line.
type report struct {
	Started int    `json:",omitempty"` // the command's process, and its group
	Failed  int    `json:",omitempty"` // errno with which the command could not be started
	Stopped int    `json:",omitempty"` // signal that has stopped the command
	Ended   *ended `json:",omitempty"` // the command and all that it started have ended
}

// ended says how the command ended.
type ended struct {
	Code   int  // exit status, if Signal is 0
	Signal int  // that ended the command, or 0
	Late   bool // the guard has sent SIGTERM or SIGKILL because of the deadline
}
