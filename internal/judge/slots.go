package judge

// RecipeSemaphore is the Recipe of a semaphore.
const RecipeSemaphore = "semaphore"

// takeSlots judges that slots are granted that there are. Their exclusion (see exclusion)
// then says that no more than all of them are held.
func (j *Judge) takeSlots(e Event) {
	n, ok := j.cfg.Slots[e.Key]
	if !ok || e.Kind != Granted {
		return
	}
	seen := map[int]bool{}
	for _, slot := range e.Slots {
		if slot < 0 || slot >= n || seen[slot] {
			j.violation(e.At, "slots", []string{e.Key}, "%s: %v got slots %v of %d", e.Key, e.caller(), e.Slots, n)
			return
		}
		seen[slot] = true
	}
	if len(seen) == 0 {
		j.violation(e.At, "slots", []string{e.Key}, "%s: %v got no slot", e.Key, e.caller())
	}
}
