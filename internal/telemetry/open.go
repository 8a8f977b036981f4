package telemetry

import "time"

// open is what has begun and not ended, by a key that identifies it.
type open[K comparable] struct {
	all map[K]begun
	// seen are the series that there ever were. They are shown with 0, so that a figure does
	// not vanish between two readings.
	seen map[Series]struct{}
}

type begun struct {
	series Series
	at     time.Time
}

func newOpen[K comparable]() open[K] {
	return open[K]{all: map[K]begun{}, seen: map[Series]struct{}{}}
}

func (o *open[K]) begin(k K, s Series, at time.Time) {
	o.all[k] = begun{s, at}
	o.seen[s] = struct{}{}
}

func (o *open[K]) end(k K) { delete(o.all, k) }

// forget removes those of which is says so.
func (o *open[K]) forget(is func(K) bool) {
	for k := range o.all {
		if is(k) {
			delete(o.all, k)
		}
	}
}

// Open are the waits, or the holds, of one series that have begun and not ended.
type Open struct {
	Series
	Count  int
	Oldest time.Duration // how long ago the first of them began; 0 if there is none
}

// figures returns one Open for each series, in any order.
func (o *open[K]) figures(now time.Time) []Open {
	by := make(map[Series]Open, len(o.seen))
	for s := range o.seen {
		by[s] = Open{Series: s}
	}
	for _, b := range o.all {
		f := by[b.series]
		f.Count++
		f.Oldest = max(f.Oldest, now.Sub(b.at))
		by[b.series] = f
	}
	all := make([]Open, 0, len(by))
	for _, f := range by {
		all = append(all, f)
	}
	return all
}
