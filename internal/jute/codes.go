package jute

import "fmt"

// Operation codes (org.apache.zookeeper.ZooDefs.OpCode).
const (
	OpNotification         int32 = 0
	OpCreate               int32 = 1
	OpDelete               int32 = 2
	OpExists               int32 = 3
	OpGetData              int32 = 4
	OpSetData              int32 = 5
	OpGetACL               int32 = 6
	OpSetACL               int32 = 7
	OpGetChildren          int32 = 8
	OpSync                 int32 = 9
	OpPing                 int32 = 11
	OpGetChildren2         int32 = 12
	OpCheck                int32 = 13
	OpMulti                int32 = 14
	OpCreate2              int32 = 15
	OpReconfig             int32 = 16
	OpCheckWatches         int32 = 17
	OpRemoveWatches        int32 = 18
	OpCreateContainer      int32 = 19
	OpDeleteContainer      int32 = 20
	OpCreateTTL            int32 = 21
	OpMultiRead            int32 = 22
	OpAuth                 int32 = 100
	OpSetWatches           int32 = 101
	OpSasl                 int32 = 102
	OpGetEphemerals        int32 = 103
	OpGetAllChildrenNumber int32 = 104
	OpSetWatches2          int32 = 105
	OpAddWatch             int32 = 106
	OpWhoAmI               int32 = 107
	OpCreateSession        int32 = -10
	OpClose                int32 = -11
	OpError                int32 = -1 // an error among the results of a multi
)

var opNames = map[int32]string{
	OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData",
	OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren",
	OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2", OpCheck: "check",
	OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig",
	OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpDeleteContainer: "deleteContainer",
	OpCreateTTL: "createTTL", OpMultiRead: "multiRead", OpAuth: "auth",
	OpSetWatches: "setWatches", OpSasl: "sasl", OpGetEphemerals: "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpCreateSession: "createSession",
	OpClose: "closeSession",
}

// OpName returns the operation's name as ZooKeeper's documentation spells it.
func OpName(op int32) string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("op(%d)", op)
}

// IsOpName reports whether name is that of an operation.
func IsOpName(name string) bool {
	for _, known := range opNames {
		if known == name {
			return true
		}
	}
	return false
}

// Error codes that this module reads or sends
// (org.apache.zookeeper.KeeperException.Code).
const (
	ErrRuntimeInconsistency    int32 = -2
	ErrConnectionLoss          int32 = -4
	ErrMarshalling             int32 = -5
	ErrUnimplemented           int32 = -6
	ErrOperationTimeout        int32 = -7
	ErrBadArguments            int32 = -8
	ErrUnknownSession          int32 = -12
	ErrNoNode                  int32 = -101
	ErrNoAuth                  int32 = -102
	ErrBadVersion              int32 = -103
	ErrNoChildrenForEphemerals int32 = -108
	ErrNodeExists              int32 = -110
	ErrNotEmpty                int32 = -111
	ErrSessionExpired          int32 = -112
	ErrInvalidACL              int32 = -114
	ErrAuthFailed              int32 = -115
	ErrNothing                 int32 = -117 // no server sends it
	ErrSessionMoved            int32 = -118
	ErrNotReadOnly             int32 = -119
	ErrLocalSession            int32 = -120
	ErrNoWatcher               int32 = -121
	ErrReconfigDisabled        int32 = -123
	ErrSASL                    int32 = -124
	ErrQuotaExceeded           int32 = -125
	ErrThrottled               int32 = -127
)

// errorNames are the names of all codes, as ZooKeeper's documentation spells them.
var errorNames = map[int32]string{
	-1: "SystemError", ErrRuntimeInconsistency: "RuntimeInconsistency", -3: "DataInconsistency",
	ErrConnectionLoss: "ConnectionLoss", ErrMarshalling: "MarshallingError", ErrUnimplemented: "Unimplemented",
	ErrOperationTimeout: "OperationTimeout", ErrBadArguments: "BadArguments", ErrUnknownSession: "UnknownSession",
	-13: "NewConfigNoQuorum", -14: "ReconfigInProgress", -100: "APIError",
	ErrNoNode: "NoNode", ErrNoAuth: "NoAuth", ErrBadVersion: "BadVersion",
	ErrNoChildrenForEphemerals: "NoChildrenForEphemerals", ErrNodeExists: "NodeExists", ErrNotEmpty: "NotEmpty",
	ErrSessionExpired: "SessionExpired", -113: "InvalidCallback", ErrInvalidACL: "InvalidACL",
	ErrAuthFailed: "AuthFailed", ErrNothing: "Nothing", ErrSessionMoved: "SessionMoved", ErrNotReadOnly: "NotReadOnly",
	ErrLocalSession: "EphemeralOnLocalSession", ErrNoWatcher: "NoWatcher", -122: "RequestTimeout",
	ErrReconfigDisabled: "ReconfigDisabled", ErrSASL: "SessionClosedRequireSaslAuth",
	ErrQuotaExceeded: "QuotaExceeded", ErrThrottled: "ThrottledOp",
}

// ErrorName returns the name of an error code with its number.
func ErrorName(code int32) string {
	if name, ok := errorNames[code]; ok {
		return fmt.Sprintf("%s (error %d of the server)", name, code)
	}
	return fmt.Sprintf("error %d of the server", code)
}

// Xids that the protocol reserves. The xids of a client's requests count up from
// 1.
const (
	XidEvent      int32 = -1
	XidPing       int32 = -2
	XidAuth       int32 = -4
	XidSetWatches int32 = -8 // of the Java client; other clients use a counted xid
)

// Flags of a create (org.apache.zookeeper.CreateMode).
const (
	FlagEphemeral           int32 = 1
	FlagSequential          int32 = 2
	FlagEphemeralSequential int32 = 3
	FlagContainer           int32 = 4
	FlagTTL                 int32 = 5
	FlagSequentialTTL       int32 = 6
)

// Permissions of an ACL (org.apache.zookeeper.ZooDefs.Perms).
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// Event types (org.apache.zookeeper.Watcher.Event.EventType).
const (
	EventCreated         int32 = 1
	EventDeleted         int32 = 2
	EventDataChanged     int32 = 3
	EventChildrenChanged int32 = 4
)

// StateConnected is the state in every watch event
// (org.apache.zookeeper.Watcher.Event.KeeperState.SyncConnected).
const StateConnected int32 = 3

// Kinds of watches for checkWatches and removeWatches
// (org.apache.zookeeper.Watcher.WatcherType).
const (
	WatcherChildren            int32 = 1
	WatcherData                int32 = 2
	WatcherAny                 int32 = 3
	WatcherPersistent          int32 = 4 // since 3.9
	WatcherPersistentRecursive int32 = 5 // since 3.9
)

// Modes of addWatch (org.apache.zookeeper.AddWatchMode).
const (
	WatchPersistent          int32 = 0
	WatchPersistentRecursive int32 = 1
)
