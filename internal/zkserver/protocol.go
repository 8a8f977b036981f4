package zkserver

// An Op is what the launcher does for a Provider. Its text occurs in errors.
type Op string

const (
	OpFind   Op = "find"   // a way to run servers; the first request
	OpFetch  Op = "fetch"  // a version
	OpCreate Op = "create" // servers, without starting them
	OpClose  Op = "close"  // removes everything that was created
	OpCancel Op = "cancel" // the request with the same ID; without a reply of its own

	// What is done with one server.
	OpStart   Op = "start"
	OpKill    Op = "kill"  // with SIGKILL; waits until the process has exited
	OpStop    Op = "stop"  // with SIGTERM; waits until the process has exited
	OpPause   Op = "pause" // with SIGSTOP
	OpUnpause Op = "unpause"
	OpErase   Op = "erase" // deletes the data; only while the server is not running
	OpSave    Op = "save"  // copies the data
	OpRestore Op = "restore"
	OpCut     Op = "cut"
	OpHeal    Op = "heal"
	OpRemove  Op = "remove"
	OpWrite   Op = "write a file of"     // that was among Spec.Files
	OpCheck   Op = "check"               // fails if the process does not run
	OpDump    Op = "dump the threads of" // to the log
	OpLog     Op = "log"                 // returns its last lines
)

// A Request is a line of JSON that a Provider writes to the launcher's standard input. Each
// request gets one Reply, on standard output, in any order.
type Request struct {
	ID      int64
	Op      Op
	Version string `json:",omitempty"` // for OpFetch
	Spec    *Spec  `json:",omitempty"` // for OpCreate
	Server  int    `json:",omitempty"` // a ServerInfo's Number
	Lines   int    `json:",omitempty"` // for OpLog
	Name    string `json:",omitempty"` // for OpWrite
	Text    string `json:",omitempty"` // for OpWrite
}

// A Spec says which servers OpCreate creates.
type Spec struct {
	Servers int
	Quorum  bool // the servers are an ensemble, otherwise one that is standalone
	Version string
	Lines   []string // of zoo.cfg
	Flags   []string // of the JVM
	Secure  bool     // each server has a secure port, too
	Files   map[string]string
}

// A Reply is the launcher's answer to the Request with the same ID.
type Reply struct {
	ID          int64
	Err         string       `json:",omitempty"` // "" if it succeeded
	Unsupported bool         `json:",omitempty"` // Err wraps errors.ErrUnsupported
	Text        string       `json:",omitempty"` // of OpFind: what runs the servers; of OpLog: the lines
	Traces      *Traces      `json:",omitempty"` // of OpFind
	Servers     []ServerInfo `json:",omitempty"` // of OpCreate
}

// Traces says how to recognize what the launcher creates.
type Traces struct {
	Label string // key=value, of containers and networks
	Dir   string // with the files of processes
}

// A ServerInfo describes a server that OpCreate has created.
type ServerInfo struct {
	Number     int // in further requests
	Addr       string
	SecureAddr string // "" without Spec.Secure
}
