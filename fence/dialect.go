package fence

import (
	"regexp"
	"strings"
)

// Dialect says which database it is.
type Dialect string

// The databases that SQL knows. All holders must write to the same server: those of a cluster with
// several primaries, such as Galera, do not wait for each other's rows.
const (
	PostgreSQL Dialect = "PostgreSQL" // 9.5 or later
	MySQL      Dialect = "MySQL"      // 5.7 or later, and MariaDB, with InnoDB
	SQLite     Dialect = "SQLite"     // 3.24 or later
)

// The table of the fences, by its default name. [SQL.Migrate] creates it.
const (
	SchemaPostgreSQL = `CREATE TABLE IF NOT EXISTS zkrecipes_fence (
	name text PRIMARY KEY,
	token bigint NOT NULL
)`
	// Binary names: in MySQL's text, 'a' and 'A' are one key by default.
	SchemaMySQL = `CREATE TABLE IF NOT EXISTS zkrecipes_fence (
	name varbinary(767) NOT NULL PRIMARY KEY,
	token bigint NOT NULL
) ENGINE = InnoDB`
	SchemaSQLite = `CREATE TABLE IF NOT EXISTS zkrecipes_fence (
	name text NOT NULL PRIMARY KEY,
	token integer NOT NULL
)`
)

const defaultTable = "zkrecipes_fence"

// statements are what SQL sends.
type statements struct {
	schema string
	// raise locks the fence's row and sets its token unless that is higher. It has two arguments,
	// the name and the token.
	raise string
	// insertID: the driver's LastInsertId after raise is the token in the row. Otherwise the count
	// of rows tells, which is 0 if the token in the row is higher.
	insertID bool
	read     string // reads the token
}

// One statement locks the row and decides. Both databases lock the row even if the condition
// excludes it, or the database, and evaluate the condition on the row as it is then.
const raiseIfNotLower = `INSERT INTO zkrecipes_fence AS fence (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token`

// dialects has the statements by dialect, for the default table.
var dialects = map[Dialect]statements{
	PostgreSQL: {
		schema: SchemaPostgreSQL,
		raise:  raiseIfNotLower,
		read:   `SELECT token FROM zkrecipes_fence WHERE name = $1`,
	},
	SQLite: {
		schema: SchemaSQLite,
		raise:  strings.NewReplacer("$1", "?", "$2", "?").Replace(raiseIfNotLower),
		read:   `SELECT token FROM zkrecipes_fence WHERE name = ?`,
	},
	// MySQL has no condition there, and its count depends on a setting of the driver. Its manual
	// describes LAST_INSERT_ID(expr) as a way to return a value with the reply.
	MySQL: {
		schema: SchemaMySQL,
		raise: `INSERT INTO zkrecipes_fence (name, token) VALUES (?, LAST_INSERT_ID(?))
ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, VALUES(token)))`,
		insertID: true,
		read:     `SELECT token FROM zkrecipes_fence WHERE name = ?`,
	},
}

// tableName matches the name of a table that needs no quotes, with a schema before it or not.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// named returns the statements for a table of another name.
func (s statements) named(table string) statements {
	for _, text := range []*string{&s.schema, &s.raise, &s.read} {
		*text = strings.ReplaceAll(*text, defaultTable, table)
	}
	return s
}
