// Package parse finds the links of a page.
package parse
