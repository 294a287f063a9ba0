// What can be asked, as the server says it; with the token that the map or this page has asked for.

import { ask, headers, token } from './asking.js'
import { $ } from './elements.js'

try {
  const spec = await ask('/openapi.json')
  $('text-link').hidden = token() !== null // a link sends no token
  window.SwaggerUIBundle({
    spec,
    dom_id: '#docs',
    deepLinking: false, // its links would stand inside of buttons
    docExpansion: 'list',
    defaultModelsExpandDepth: -1,
    validatorUrl: null,
    presets: [window.SwaggerUIBundle.presets.apis],
    requestInterceptor: request => Object.assign(request, { headers: { ...request.headers, ...headers() } }),
  })
} catch (error) {
  $('docs').firstElementChild.textContent = error.message
}
