package dirs

import (
	"fmt"
	"strings"

	"drumbeat/crawl/strategy"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Open reads the manifest, the secret and the suffix list, or creates them. The secret is durable
// before the first key exists. It returns the settings that are fixed for the crawl.
func (d *Opener) Open() (frozen state.Frozen, _ error) {
	s := d.saved
	for i := range s.Set.Len() {
		if err := s.Set.FS.MkdirAll(s.Set.Path(i, "state")); err != nil {
			return frozen, fmt.Errorf("crawl: %w", err)
		}
		if err := s.Set.FS.SyncDir(s.Set.Path(i)); err != nil {
			return frozen, fmt.Errorf("crawl: %w", err)
		}
	}
	m, bad, err := state.ReadManifest(s.Set)
	if err != nil {
		return frozen, err
	}
	for _, err := range bad {
		d.opt.Log.Error("a manifest is unusable: using a copy", "error", err, "checkpoint", m.Gen)
	}
	if (d.opt.Table != nil || d.opt.Since) && m == nil {
		if err := s.HealCopies(state.SecretName, state.SecretFile(d.opt.Secret)); err != nil {
			return frozen, fmt.Errorf("crawl: write the hash secret: %w", err)
		}
	}
	secret, err := s.OpenSecret(m)
	if err != nil {
		return frozen, err
	}
	if d.opt.Since && secret != d.opt.Secret {
		return frozen, fmt.Errorf("crawl: a crawl takes the bodies of earlier ones when it begins, and this one began "+
			"without them: leave out --since, or begin a crawl in another directory: %w", state.ErrIncompatible)
	}
	s.Hasher = weburl.NewHasher(secret)
	if err := s.OpenSuffixes(d.opt.Private, m != nil); err != nil {
		return frozen, err
	}
	if d.opt.Table != nil {
		s.Hasher = s.Hasher.WithSlots(s.Suffixes)
	}
	if frozen, err = d.frozen(m, secret); err != nil {
		return frozen, err
	}
	if m == nil {
		return frozen, s.HealCopies(state.SecretName, state.SecretFile(secret))
	}
	if m.Crawl != s.CrawlID {
		return frozen, fmt.Errorf("crawl: manifest of crawl %s in a directory of crawl %s: %w",
			m.Crawl, s.CrawlID, state.ErrIncompatible)
	}
	if was := d.before(m, &frozen); was != frozen {
		return frozen, fmt.Errorf("crawl: settings that cannot change during a crawl have changed: %s: %w",
			d.changes(was, frozen), state.ErrIncompatible)
	}
	if err := d.opt.Accept(m); err != nil {
		return frozen, err
	}
	s.Manifest = m
	if err := m.Whole(); err != nil {
		return frozen, err
	}
	return frozen, d.heal(m, secret)
}

// before returns the fixed settings of a manifest. If the crawl takes the table of owners that follows, that and the
// number of nodes are those of this run.
func (d *Opener) before(m *state.Manifest, frozen *state.Frozen) state.Frozen {
	was := m.Frozen
	if d.opt.Adopt {
		was.Nodes, was.Table, was.Slots = frozen.Nodes, frozen.Table, frozen.Slots
	}
	return was
}

// frozen returns the settings that are fixed for a crawl, as this run has them.
func (d *Opener) frozen(m *state.Manifest, secret weburl.Secret) (frozen state.Frozen, _ error) {
	s := d.saved
	lanes, err := d.opt.Lanes(m)
	if err != nil {
		return frozen, err
	}
	frozen = state.Frozen{SecretCheck: s.Hasher.ContentKey([]byte(state.SecretCheckText)),
		Suffixes: s.Suffixes.Digest(), Private: d.opt.Private, SeparateOut: s.SeparateOut,
		KeepEscapes: d.opt.KeepEscapes, Walk: d.opt.Walk, Parts: d.opt.Parts}
	if lanes > 1 {
		frozen.Lanes = lanes
	}
	if table := d.opt.Table; table != nil {
		if secret != d.opt.Secret {
			return frozen, fmt.Errorf("crawl: the secret of the directories differs from the cluster's: %w",
				state.ErrIncompatible)
		}
		frozen.Nodes, frozen.Node, frozen.Table = table.Nodes(), d.opt.Node, table.Sum()
		frozen.Slots = state.SlotsOf(table, d.opt.Node)
	}
	return frozen, nil
}

// heal makes all copies of manifest and secret equal before anything is deleted.
func (d *Opener) heal(m *state.Manifest, secret weburl.Secret) error {
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	if err := d.saved.HealCopies(state.SecretName, state.SecretFile(secret)); err != nil {
		return err
	}
	return d.saved.HealCopies(state.ManifestName, data)
}

// changes describes the fixed settings that have changed since the crawl began.
func (d *Opener) changes(was, frozen state.Frozen) string {
	var list []string
	if was.SecretCheck != frozen.SecretCheck {
		list = append(list, fmt.Sprintf("%s has a different secret", d.saved.Set.Path(0, state.SecretName)))
	}
	if was.Private != frozen.Private {
		list = append(list, fmt.Sprintf("--private-suffixes was %v, is %v", was.Private, frozen.Private))
	}
	if was.Suffixes != frozen.Suffixes {
		list = append(list, fmt.Sprintf("the suffix list in %s has digest %s, had %s",
			d.saved.Set.Path(0, state.SuffixesName), frozen.Suffixes, was.Suffixes))
	}
	if was.SeparateOut != frozen.SeparateOut {
		list = append(list, fmt.Sprintf("separate output directories (--out) was %v, is %v",
			was.SeparateOut, frozen.SeparateOut))
	}
	if was.KeepEscapes != frozen.KeepEscapes {
		word := map[bool]string{false: "fold", true: "keep"}
		list = append(list,
			fmt.Sprintf("--canonical escapes was %s, is %s", word[was.KeepEscapes], word[frozen.KeepEscapes]))
	}
	if was.Walk != frozen.Walk {
		list = append(list,
			fmt.Sprintf("a random walk (--strategy %s) was %v, is %v", strategy.RandomWalk, was.Walk, frozen.Walk))
	}
	if was.Parts != frozen.Parts {
		list = append(list, fmt.Sprintf("budgets were of %s, are of %s", was.Parts.Name(), frozen.Parts.Name()))
	}
	if was.Nodes != frozen.Nodes || was.Node != frozen.Node {
		list = append(list, fmt.Sprintf("the crawl was node %d of %d, is node %d of %d (0 of 0: not in a cluster)",
			was.Node, was.Nodes, frozen.Node, frozen.Nodes))
	}
	if was.Table != frozen.Table {
		list = append(list, "the table of owners differs")
	} else if was.Slots != frozen.Slots {
		list = append(list, "the keys have no slots: a development version started the crawl")
	}
	if was.Lanes != frozen.Lanes {
		list = append(list,
			fmt.Sprintf("the number of lanes (--priority lanes) was %d, is %d", max(1, was.Lanes),
				max(1, frozen.Lanes)))
	}
	return strings.Join(list, "; ")
}
