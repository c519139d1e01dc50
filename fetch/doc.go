// Package fetch does one HTTP/1.1 exchange at a given address, within hard limits.
package fetch
