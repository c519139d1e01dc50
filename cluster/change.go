package cluster

// Changer changes records of links in messages that wait in an outbox, but not their URLs: sums and numbers stay, so
// the receiver may have the message of either form. The zero value is ready. It belongs to one goroutine.
type Changer struct {
	dec Decoder
	raw []byte
	msg []byte
}

// Message returns a message with each record of a link as change returns it. changed says whether one differs. The
// message is valid until the next call.
func (c *Changer) Message(msg []byte, change func(link []byte) ([]byte, error)) (next []byte, changed bool, err error) {
	h, err := ReadHeader(msg)
	if err != nil {
		return nil, false, err
	}
	raw, err := c.dec.block(msg, &h)
	if err != nil {
		return nil, false, err
	}
	raw, changed, err = c.Records(raw, change)
	if err != nil || !changed {
		return msg, false, err
	}
	c.msg = appendMessage(c.msg[:0], &h, raw)
	return c.msg, true, nil
}

// Records is Message for the records of a message that is not complete (OutboxState.Open).
func (c *Changer) Records(raw []byte, change func(link []byte) ([]byte, error)) (next []byte, changed bool, err error) {
	c.raw = c.raw[:0]
	for rest := raw; len(rest) > 0; {
		var kind byte
		var rec []byte
		if kind, rec, rest, err = nextRecord(rest); err != nil {
			return nil, false, err
		}
		if kind == kindLink || kind == kindChecked {
			was := len(rec)
			if rec, err = change(rec); err != nil {
				return nil, false, err
			}
			changed = changed || len(rec) != was
		}
		c.raw = append(appendHead(c.raw, kind, len(rec)), rec...)
	}
	return c.raw, changed, nil
}
