{{/* A value of TOML. JSON's strings, numbers and booleans are TOML's, too. */}}
{{- define "liqod.toml" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- $pairs = append $pairs (printf "%s = %s" (include "liqod.tomlKey" $key) (include "liqod.toml" $value)) -}}
{{- end -}}
{ {{ join ", " $pairs }} }
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . -}}{{- $items = append $items (include "liqod.toml" .) -}}{{- end -}}
[{{ join ", " $items }}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{- define "liqod.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

{{/* The daemon's configuration: what other values say of it, and before that the settings. */}}
{{- define "liqod.configuration" -}}
{{- $api := dict -}}
{{- with .Values.apiServer.address }}{{ $_ := set $api "advertise" . }}{{ end -}}
{{- if and .Values.apiServer.address .Values.apiServer.ca -}}
{{- $_ := set $api "ca_file" "/etc/liqod/api-server-ca.crt" -}}
{{- end -}}
{{- $told := dict -}}
{{- if $api }}{{ $_ := set $told "api_server" $api }}{{ end -}}
{{- if .Values.storage }}{{ $_ := set $told "storage" (dict "enabled" true) }}{{ end -}}
{{- if .Values.services }}{{ $_ := set $told "services" (dict "enabled" true) }}{{ end -}}
{{- include "liqod.tables" (mergeOverwrite $told (deepCopy .Values.config)) -}}
{{- end -}}

{{/* Of it the part that `liqod node` goes by. */}}
{{- define "liqod.nodeConfiguration" -}}
{{- $network := pick (.Values.config.network | default dict) "enabled" "advertise" "backends" "reserved" -}}
{{- $handshake := pick (.Values.config.handshake | default dict) "port" "stream_idle" -}}
{{- $told := dict "network" $network "handshake" $handshake -}}
{{- with .Values.config.plugins }}{{ $_ := set $told "plugins" . }}{{ end -}}
{{- include "liqod.tables" $told -}}
{{- end -}}

{{/* The image of `liqod node`, as `liqod install` names it. */}}
{{- define "liqod.nodeImage" -}}
{{- $image := .Values.image | default (printf "liqod:%s" .Chart.AppVersion) -}}
{{- if not (contains ":" (base $image)) }}{{ $image = printf "%s:latest" $image }}{{ end -}}
{{- .Values.nodeImage | default (printf "%s-node" $image) -}}
{{- end -}}

{{- define "liqod.tables" -}}
{{- range $key, $value := . }}{{ if not (kindIs "map" $value) -}}
{{ $key }} = {{ include "liqod.toml" $value }}
{{ end }}{{ end -}}
{{- range $key, $value := . }}{{ if and $value (kindIs "map" $value) -}}
[{{ $key }}]
{{ range $name, $setting := $value -}}
{{ include "liqod.tomlKey" $name }} = {{ include "liqod.toml" $setting }}
{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{- define "liqod.pods" -}}
app.kubernetes.io/name: controller-manager
app.kubernetes.io/component: controller-manager
{{- end -}}

{{- define "liqod.labels" -}}
app.kubernetes.io/managed-by: liqod
app.kubernetes.io/part-of: liqo
liqod.io/managed: "true"
{{- end -}}
