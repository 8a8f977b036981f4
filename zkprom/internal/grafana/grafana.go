// Package grafana reads the queries of a Grafana dashboard, for the tests of zkprom.
package grafana

import (
	"encoding/json"
	"errors"
	"strings"
)

// Query is an expression of PromQL with variables of Grafana.
type Query string

// WithoutVariables returns the expression as Grafana sends it, with some value for each variable.
func (q Query) WithoutVariables() string {
	return strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(string(q))
}

type panel struct {
	Panels  []panel // of a row
	Targets []struct{ Expr Query }
}

// Queries returns the queries of all panels, and an error if there are no panels.
func Queries(dashboard []byte) (all []Query, err error) {
	var d struct {
		Panels []panel
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		return nil, err
	}
	if len(d.Panels) == 0 {
		return nil, errors.New("no panels")
	}
	return queriesOf(d.Panels), nil
}

func queriesOf(panels []panel) (all []Query) {
	for _, p := range panels {
		all = append(all, queriesOf(p.Panels)...)
		for _, t := range p.Targets {
			all = append(all, t.Expr)
		}
	}
	return all
}
