// The token, if the server wants one, is the one that the map has asked for.
const TOKEN = "dtoss-token";

window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
  presets: [window.SwaggerUIBundle.presets.apis],
  requestInterceptor: (request) => {
    const token = sessionStorage.getItem(TOKEN);
    if (token) request.headers.Authorization = `Bearer ${token}`;
    return request;
  },
});
