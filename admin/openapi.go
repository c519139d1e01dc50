package admin

import (
	"cmp"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object of the description.
type object = map[string]any

// OpenAPI returns the OpenAPI 3.1 description of the operations.
func OpenAPI(version string) map[string]any {
	schemas := object{}
	paths := object{}
	for i := range operations {
		op := &operations[i]
		at, _ := paths[op.Path].(object)
		if at == nil {
			at = object{}
			paths[op.Path] = at
		}
		at[strings.ToLower(op.Method)] = op.describe(schemas)
	}
	paths["/api/v1/events"] = object{"get": object{"operationId": "events",
		"summary": "Server-sent events: status every second, log for each new line, change after each change.",
		"responses": object{"200": object{"description": "The events.",
			"content": object{"text/event-stream": object{}}}}}}
	problems := schemaOf(reflect.TypeFor[Problem](), schemas)
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "drumbeat admin", "version": version,
			"description": "Watch and steer a running crawl. Changes over TCP need the token in the file admin-token " +
				"in the crawl's first directory; each start makes a new one. Requests over the Unix socket " +
				"admin.sock in the same directory need none.",
			"license": object{"name": "see the file LICENSE"}},
		"servers": []any{object{"url": "/"}},
		"paths":   paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"responses": object{"problem": object{"description": "An error (RFC 9457).",
				"content": object{"application/problem+json": object{"schema": problems}}}},
		},
	}
}

// describe describes an operation.
func (op *Operation) describe(schemas object) object {
	out := object{"operationId": op.ID, "summary": op.Summary, "responses": object{
		"200": object{"description": "Done.",
			"content": object{"application/json": object{"schema": schemaOf(reflect.TypeOf(op.Result), schemas)}}},
		"default": object{"$ref": "#/components/responses/problem"}}}
	if op.Changes() {
		out["security"] = []any{object{"token": []string{}}}
	}
	var params []any
	for _, p := range op.Params {
		schema := object{"type": "string"}
		if p.Integer {
			schema = object{"type": "integer", "minimum": 1}
		}
		if p.Enum != nil {
			schema["enum"] = p.Enum
		}
		params = append(params,
			object{"name": p.Name, "in": cmp.Or(p.In, "query"), "description": p.Summary, "required": p.Required,
				"schema": schema})
	}
	if params != nil {
		out["parameters"] = params
	}
	if op.Body != nil {
		content := object{"application/json": object{"schema": schemaOf(reflect.TypeOf(op.Body), schemas)}}
		if op.ID == "addSeeds" {
			content["text/plain"] = object{"schema": object{"type": "string"}}
		}
		out["requestBody"] = object{"required": true, "content": content}
	}
	return out
}

// schemaOf returns the schema of a type. Structs become components.
func schemaOf(t reflect.Type, schemas object) object {
	if t == reflect.TypeFor[time.Time]() {
		return object{"type": "string", "format": "date-time"}
	}
	if t == reflect.TypeFor[number]() {
		return object{"type": []string{"number", "null"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.Struct:
		name := strings.ReplaceAll(strings.TrimPrefix(t.String(), "admin."), ".", "_")
		if _, known := schemas[name]; !known {
			schemas[name] = object{}
			properties, required := object{}, []string{}
			addFields(t, schemas, properties, &required)
			schemas[name] = object{"type": "object", "properties": properties, "required": required}
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{"type": "integer"}
}

// addFields adds the fields of a struct, with those of embedded structs.
func addFields(t reflect.Type, schemas, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			addFields(f.Type, schemas, properties, required)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		schema := schemaOf(f.Type, schemas)
		if doc := f.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[name] = schema
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			*required = append(*required, name)
		}
	}
}

// openAPI answers with the description.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "max-age="+strconv.Itoa(int(time.Hour.Seconds())))
	writeJSON(w, OpenAPI(s.opt.Version))
}
