package costs

// stated is by the first cell of the document's row. A cell that begins with "..." follows the
// last cell above that does not.
var stated = map[string]statement{
	"Lock and Release, free": {rows: "Mutex: Lock and Release, free"},
	"Lock and Release, free ... this client's first use of an existing line, or its first for 30 s": {
		rows: "Mutex: ... this client's first use of a line that exists",
	},
	"Lock and Release, free ... of a line that does not exist": {
		rows: "Mutex: ... of a line that does not exist, its parent does",
		says: map[string]int{"4 (+2 for each missing parent)": 4, "3 (+1 for each missing parent)": 3},
	},
	"Lock and Release, free ... to delete the line, once this client has not used it for half a minute": {
		rows: "Mutex: deletion of the line, once idle for half a minute",
		says: map[string]int{"2, and 2 for each parent that it has created": 2, "1, and 1 for each such parent": 1},
	},
	"Lock and Release with N waiting, a full cycle": {
		rows: "Mutex: Lock of a held lock + Mutex: Release with a waiter, which is granted" +
			" | Mutex in a long line: Lock of a lock for which 200 wait + Mutex in a long line: Release with 200 waiters",
	},
	"TryLock and Release, free":                      {rows: "Mutex: TryLock and Release, free"},
	"TryLock on a held lock, in a line of at most 4": {rows: "Mutex: TryLock of a held lock"},
	"Re-entry": {rows: "Mutex: Re-entry | RWLock: re-entry of a writer as a reader"},
	"Lock and Release with KeepFor, taken again by the same process": {
		rows: "Mutex with options: KeepFor: Lock and Release, taken again | Mutex with options: KeepFor: TryLock and Release, taken again",
	},
	"Lock and Release with KeepFor, taken again by the same process ... the first time: Lock, and Release that keeps it": {
		rows: "Mutex with options: KeepFor: Lock and Release, the first time",
	},
	"Lock and Release with LockDelay, free": {rows: "Mutex with options: LockDelay: Lock and Release, free"},
	"Lock and Release with LockDelay, free ... with N waiting": {
		rows: "Mutex with options: LockDelay: Lock of a held lock + Mutex with options: LockDelay: Release with a waiter, which is granted",
		says: map[string]int{"1 more than without LockDelay": 6},
	},
	"LockAll": {
		rows: "Mutex: LockAll and Release of two",
		says: map[string]int{"the sum of its locks'": 4},
	},
	"Lease.Commit":                {rows: "Mutex: Lease.Commit"},
	"Lease.Get, Lease.Children":   {rows: "Mutex: Lease.Get | Mutex: Lease.Children"},
	"Contenders":                  {rows: "Lists and evictions: Contenders of a lock that is held", says: map[string]int{"2, and 1 for each place": 3}},
	"Evict of the leader":         {rows: "Lists and evictions: Evict of the leader"},
	"RLock and Release, alone":    {rows: "RWLock: RLock and Release, alone"},
	"TryRLock and Release, alone": {rows: "RWLock: TryRLock and Release, alone"},
	"Evict of a waiter ... of a holder, with EvictOptions.Holder": {rows: "Lists and evictions: Evict of the holder"},
	"RLock and Release, only other readers, however many": {
		rows: "RWLock: RLock and Release beside a reader | RWLock: RLock and Release beside 1,000 readers",
	},
	"TryLock or TryRLock, refused": {
		rows: "RWLock: TryLock beside a reader | RWLock: TryLock beside a writer | RWLock: TryRLock beside a writer",
	},
	"Downgrade": {rows: "RWLock: Downgrade, nobody waits"},

	"Acquire and Release, slots are free, any number of them": {
		rows: "Semaphore: Acquire and Release, free | Semaphore: Acquire and Release of three slots, free",
	},
	"Acquire and Release, slots are free, any number of them ... if others have acquired slots or waited since this value last did": {
		rows: "Semaphore: ... another client has used it since | Semaphore: ... another client has taken a slot since",
	},
	"Acquire and Release, slots are free, any number of them ... while many clients take slots at the same time": {
		rows: "Semaphore: ... in a crowd, another client has taken a slot since",
	},
	"TryAcquire, refused because too few slots are free": {
		rows: "Semaphore: TryAcquire, full | Semaphore: TryAcquire, full, the first | Semaphore: TryAcquire, full, and others wait",
	},
	"TryAcquire, refused because too few slots are free ... because somebody waits for more slots than are free": {
		rows: "Semaphore: TryAcquire, a slot is free, but somebody waits for more",
	},
	"Each attempt, of 3 at most of Acquire and 16 of TryAcquire, that comes too late because others take slots ... while many do, because others have taken the same slot": {
		rows: "Semaphore: TryAcquire in a crowd, another client has the same slot",
	},
	"Holders": {
		rows: "Semaphore: Holders, two slots are taken",
		says: map[string]int{"1, and 1 for each slot that is taken; 2 if no slot was taken for a while": 3},
	},
	"Resize": {rows: "Semaphore: Resize"},
	"Size":   {rows: "Semaphore: Size"},
	"Contenders of a semaphore": {
		rows: "Lists and evictions: Contenders of a semaphore with three slots taken and two waiters",
		says: map[string]int{"2, and 1 for each slot that is taken and each waiter; 1 more if no slot was taken for a while": 7},
	},

	"Campaign and Resign, free": {rows: "Election: Campaign and Resign, free"},
	"Resign, and the next candidate leads": {
		rows: "Election: Resign with one candidate, which leads | Election: Resign with 20 candidates, one of which leads",
	},
	"Proclaim": {rows: "Election: Proclaim"},
	"Leader":   {rows: "Election: Leader"},
	"Contenders of an election": {
		rows: "Lists and evictions: Contenders of an election with a leader and a candidate",
		says: map[string]int{"3, and 1 for each place": 5},
	},
	"A second Lead in the same process": {rows: "Election: Lead, the second of a process"},

	"Client.Get, Client.Children, Client.Exists": {
		rows: "Reads and watches: Client.Get | Reads and watches: Client.Children | Reads and watches: Client.Exists",
	},
	"Watch, WatchChildren: to begin, and in each new session": {
		rows: "Reads and watches: Watch: to begin | Reads and watches: WatchChildren: to begin",
		says: map[string]int{"2; 3 if there is no znode": 2},
	},
	"Watch, WatchChildren: to begin, and in each new session ... while nothing changes": {rows: "Reads and watches: Watch by three clients: for an hour"},
	"Group.Join": {
		rows: "Group: Join", says: map[string]int{"2, and the same in each new session": 2},
	},
	"Group.Join ... if the path does not exist": {
		rows: "Group: Join, the path does not exist",
		says: map[string]int{"Requests: 2 more, and 2 for each missing parent": 4, "Commits: 2 more, and 2 for each missing parent": 3},
	},
	"Membership.Update, Membership.Leave": {rows: "Group: Membership.Update | Group: Membership.Leave"},
	"Group.Members":                       {rows: "Group: Members, of three", says: map[string]int{"2, and 1 for each member": 5}},
	"Group.Watch: to begin, and in each new session": {
		rows: "Group: Watch: to begin, three members",
		says: map[string]int{"2, and 1 for each member; 3 if the path does not exist": 5},
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
	"CompareAndSet, it swaps": {rows: "Counter: CompareAndSet, it swaps"},
	"CompareAndSet, it swaps ... the value is another one": {
		rows: "Counter: CompareAndSet, the value is another one",
		says: map[string]int{"2 or 3": 2},
	},
	"Get of a counter": {rows: "Counter: Get"},

	"A round of a Barrier with n members, until it is open": {
		rows: "Barrier: nine of ten members wait, who come one by one + Barrier: the last of ten members comes, and all return",
		n:    10,
		less: 2, // of the first member, which creates the round
	},
	"A round of a Barrier with n members, until it is open ... to leave it": {
		rows: "Barrier: ten members leave", says: map[string]int{"1 each, and 1 of the last": 11},
	},
	"DoubleBarrier: n enter": {
		rows: "Double barrier: nine of ten members wait, who come one by one + Double barrier: the last of ten members enters, and all return", n: 10,
		says: map[string]int{"2n + 1, and exists once for each session; a listing more at the first use": 21},
	},
	"Gate.Wait, open": {rows: "Gate: Wait, open"},
	"Gate.IsOpen":     {rows: "Gate: IsOpen"},
	"Gate.Shut, Gate.Open": {
		rows: "Gate: Shut | Gate: Open",
	},

	"Put":    {rows: "Queue: Put", says: map[string]int{"1, and one more for each hundred items": 1}},
	"PutAll": {rows: "Queue: PutAll of three", says: map[string]int{"1, and one more for each hundred items": 1}},
	"Take and Ack, an item is there and no consumer waits":                               {rows: "Queue: Take, an item is there + Queue: Ack"},
	"Take and Ack, an item is there and no consumer waits ... in Serve, with one worker": {rows: "Queue: Serve with one worker, one item of many"},
	"TryTake, an item is free": {rows: "Queue: TryTake, an item is free"},
	"TryTake, nothing is free": {
		rows: "Queue: TryTake, nothing is free, the item that there was is taken",
		says: map[string]int{"1; 0 if nothing has changed since the last try": 1},
	},
	"Nack, AckPut": {rows: "Queue: Nack | Queue: AckPut of two items to another queue"},
	"Len":          {rows: "Queue: Len, one segment", says: map[string]int{"1, and 1 for each segment": 2}},
	"Peek":         {rows: "Queue: Peek, one segment", says: map[string]int{"3, and 1 for each further segment up to the item's": 3}},
	"Items": {
		rows: "Queue: Items, two of them, one of which is taken",
		says: map[string]int{"1, 1 for each segment, 1 for each item, and 1 more for each item that is taken": 5},
	},
	"Find": {
		rows: "Queue: Find, the first, which is taken",
		says: map[string]int{"3, and 1 for each segment up to the item's; 1 more if the item is taken": 5},
	},
	"Remove": {
		rows: "Queue: Remove, the only one",
		says: map[string]int{"3, and 1 for each segment up to the item's; 1 more if the item was the last one of a segment": 4, "1, or 2": 1},
	},
	"Purge": {
		rows: "Queue: Purge of two, one segment",
		says: map[string]int{"2, 2 for each segment, and 1 for each that it empties": 4, "1 for each segment, and 1 for each that it empties": 1},
	},
	"Redrive": {
		rows: "Queue: Redrive of one of two letters",
		says: map[string]int{
			"2, 1 for each segment of dead letters, 2 for each letter, and 1 for each segment that it empties": 5,
			"1 for each letter, and 1 for each segment that it empties":                                        1,
		},
	},
	"Close": {rows: "Client: Close with a lock held", says: map[string]int{"the deletions of what is held, and 1": 2}},
}

// uncounted are rows of the document that no row here counts: what others do or what time does,
// how long something takes, and what tests of a behaviour bound.
var uncounted = []string{
	"Lock and Release with N waiting, a full cycle ... its join, in round trips",
	"Lock and Release with N waiting, a full cycle ... from a release to the next grant",
	"Lock and Release with N waiting, a full cycle ... the next waiter lists the line if its predecessor belongs to another library, died or gave up, or after a reconnect",
	"TryLock on a held lock, in a line of at most 4 ... in a longer line, or on this client's first use",
	"Lock and Release with KeepFor, taken again by the same process ... in use for longer than d",
	"Lock and Release with KeepFor, taken again by the same process ... beside others in the line",
	"Evict of a waiter",
	"Lock and Release", // as a Mutex
	"A writer releases, R readers wait",
	"A writer that waits behind readers",
	"Acquire and Release, in line, with one departure",
	"Acquire and Release, in line, with one departure ... each further departure that does not suffice",
	"Each attempt, of 3 at most of Acquire and 16 of TryAcquire, that comes too late because others take slots",
	"Resign, and the next candidate leads ... each observer",
	"Watch, WatchChildren: to begin, and in each new session ... a change",
	"Group.Watch: to begin, and in each new session ... members have come or left",
	"Group.Watch: to begin, and in each new session ... members were updated",
	"Add, Set, all calls of a Client that wait together ... in line",
	"A round of a Barrier with n members, until it is open ... if a member has left before",
	"A round of a Barrier with n members, until it is open ... its first member",
	"A round of a Barrier with n members, until it is open ... a member that arrives early",
	"DoubleBarrier: n enter ... n leave",
	"Gate.Wait, shut, and then open",
	"Put ... with MaxLen",
	"Take and Ack, an item is there and no consumer waits ... in line",
	"Take and Ack, an item is there and no consumer waits ... in line, in a loop without a pause between Ack and Take",
	"Take and Ack, an item is there and no consumer waits ... where several Clients take, and there are plenty",
	"Take and Ack, an item is there and no consumer waits ... in Serve, several workers that are all free",
	"Dial",
	"A heartbeat",
	"The first wait of a session",
	"The first use of a line that another library has made",
	"A hand-off in such a line",
	"A reconnect",
}
