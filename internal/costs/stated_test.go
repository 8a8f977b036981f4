package costs

// stated is by the first cell of the document's row. A cell that begins with "..." follows the
// last cell above that does not.
var stated = map[string]statement{
	"A free lock and its release": {rows: "Mutex: Lock and Release, free"},
	"A lock and its release with N waiting": {
		rows: "Mutex: Lock of a held lock + Mutex: Release with a waiter, which is granted" +
			" | Mutex in a long line: Lock of a lock for which 200 wait + Mutex in a long line: Release with 200 waiters",
	},
	"A lock and its release with N waiting ... of these, from the release to the next grant": {
		rows: "Mutex: Release with a waiter, which is granted | Mutex in a long line: Release with 200 waiters",
		less: 1, // the release
	},
	"A lock and its release with N waiting ... the same before ZooKeeper 3.9: a listing": {
		rows: "Mutex" + on38 + ": Release with a waiter, which is granted | Mutex in a long line" + on38 + ": Release with 200 waiters",
		less: 1,
	},
	"TryLock on a held lock": {rows: "Mutex: TryLock of a held lock", says: map[string]int{"1 or 2": 1}},
	"A lock that KeepFor has kept; a re-entry": {
		rows: "Mutex with options: KeepFor: Lock and Release, taken again | Mutex with options: KeepFor: TryLock and Release, taken again" +
			" | Mutex: Re-entry | RWLock: re-entry of a writer as a reader",
	},
	"A read lock and its release beside other readers": {
		rows: "RWLock: RLock and Release beside a reader | RWLock: RLock and Release beside 1,000 readers",
	},
	"A free slot and its release": {
		rows: "Semaphore: Acquire and Release, free | Semaphore: Acquire and Release of three slots, free",
	},
	"A change of leader": {
		rows: "Election: Resign with one candidate, which leads | Election: Resign with 20 candidates, one of which leads",
	},
	"A change of leader ... before ZooKeeper 3.9": {
		rows: "Election" + on38 + ": Resign with one candidate, which leads | Election" + on38 + ": Resign with 20 candidates, one of which leads",
	},
	"An item of a backlog: put, take and ack": {
		rows: "Queue: Put + Queue: Take, an item is there + Queue: Ack",
		says: map[string]int{"4 to 6": 6, "2 to 3": 3},
	},
	"A barrier's round of n members, which leave": {
		rows: "Barrier: nine of ten members wait, who come one by one + Barrier: the last of ten members comes, all return and leave",
		n:    10,
	},

	"Commit, Downgrade, Proclaim, Update, Leave, Shut, Open, Ack, Nack, AckPut": {
		rows: "Mutex: Lease.Commit | Reads and watches: Client.Commit | RWLock: Downgrade, nobody waits | Election: Proclaim" +
			" | Group: Membership.Update | Group: Membership.Leave | Gate: Shut | Gate: Open" +
			" | Queue: Ack | Queue: Nack | Queue: AckPut of two items to another queue",
	},
	"Get, Children, Exists, ACL, of a znode": {
		rows: "Mutex: Lease.Get | Mutex: Lease.Children" +
			" | Reads and watches: Client.Get | Reads and watches: Client.Children | Reads and watches: Client.Exists | Reads and watches: Client.ACL",
	},
	"Leader; Get of a counter": {rows: "Election: Leader | Counter: Get"},

	"Lock and Release, free: this client's first for 30 s": {rows: "Mutex: ... this client's first use of a line that exists"},
	"Lock and Release, free: this client's first for 30 s ... of a line that does not exist": {
		rows: "Mutex: ... of a line that does not exist, nor 3 parents",
		says: map[string]int{"4 (+2 for each missing parent)": 10, "3 (+2 for each missing parent)": 9},
	},
	"Lock and Release, free: this client's first for 30 s ... to delete the line, once idle": {
		rows: "Mutex: deletion of the line, once idle for half a minute",
		says: map[string]int{"2, and 2 for each parent that it has created": 2, "1, and 1 for each such parent": 1},
	},
	"Lock with KeepFor, the first, and Release": {rows: "Mutex with options: KeepFor: Lock and Release, the first time"},
	"Contenders": {rows: "Lists and evictions: Contenders of a lock that is held", says: map[string]int{"2, and 1 for each place": 3}},

	"Acquire and Release, if others have acquired slots or waited since": {
		rows: "Semaphore: ... another client has used it since | Semaphore: ... another client has taken a slot since",
	},

	"Watch, WatchChildren: to begin, and in each new session": {
		rows: "Reads and watches: Watch: to begin | Reads and watches: WatchChildren: to begin",
		says: map[string]int{"2; 3 if there is no znode": 2},
	},
	"Group.Join": {
		rows: "Group: Join", says: map[string]int{"2, and the same in each new session": 2},
	},
	"Group.Members; Group.Watch in each session": {
		rows: "Group: Members, of three | Group: Watch: to begin, three members",
		says: map[string]int{"2, and 1 for each member": 5},
	},

	"Add, Set, all calls of a Client that wait together": {rows: "Counter: Add | Counter: Set"},
	"Add, Set, all calls of a Client that wait together ... the first in a session, or for half a minute": {
		rows: "Counter: Add, the first for a minute, and its clean-up",
		says: map[string]int{"3, and 1 when it is idle": 4, "2, and 1 when it is idle": 3},
	},
	"Add, Set, all calls of a Client that wait together ... each time that others were quicker": {
		rows: "Counter: Add, another client was quicker",
		says: map[string]int{"3 more": 4, "1 more": 2},
	},

	"DoubleBarrier: n enter": {
		rows: "Double barrier: nine of ten members wait, who come one by one + Double barrier: the last of ten members enters, and all return", n: 10,
		says: map[string]int{"2n + 1, and exists once for each session; a listing more at the first use": 21},
	},

	"Put": {rows: "Queue: Put", says: map[string]int{"1, and one more for each hundred items": 1}},
	"Take and Ack, an item is there and no consumer waits":                               {rows: "Queue: Take, an item is there + Queue: Ack"},
	"Take and Ack, an item is there and no consumer waits ... in Serve, with one worker": {rows: "Queue: Serve with one worker, one item of many"},
	"Len": {rows: "Queue: Len, one segment", says: map[string]int{"1, and 1 for each segment": 2}},
}

// uncounted are rows of the document that no row here counts: what others do or what time does,
// how long something takes, and what tests of a behaviour bound.
var uncounted = []string{
	"Lock with KeepFor, the first, and Release ... in use for longer than d",
	"Acquire and Release, in line, with one departure",
	"Watch, WatchChildren: to begin, and in each new session ... a change",
	"Group.Members; Group.Watch in each session ... a change",
	"An item for which consumers have waited",
	"Put ... with MaxLen",
	"Take and Ack, an item is there and no consumer waits ... in line",
	"Take and Ack, an item is there and no consumer waits ... where several Clients take, and there are plenty",
	"Take and Ack, an item is there and no consumer waits ... in Serve, several workers that are all free",
}
