// Package dnscache is an asynchronous stub resolver with a cache.
package dnscache
