{{- define "magnet-scope.name" -}}
{{ printf "%s-agent" .Chart.Name }}
{{- end }}
{{- define "magnet-scope.selector" -}}
app.kubernetes.io/name: {{ include "magnet-scope.name" . }}
{{- end }}
{{- define "magnet-scope.port" -}}
{{ last (splitList ":" .Values.listen) }}
{{- end }}
