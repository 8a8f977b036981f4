package semaphore

// SetKnownLine has what is known say that the line's data have that version.
func (x *Semaphore) SetKnownLine(version int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Known.line = version
}
