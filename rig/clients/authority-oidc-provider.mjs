// The authorization server `oidc-provider`: clients get tokens of their own, signed with the first of its keys.
//
// Its arguments: where the package is, a port (0 for any), a folder, and the names of its keys. A key that is not yet in the
// folder is made, so that whoever starts it again says which keys stay. Says where it listens and goes on until it is killed.

import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [location, port, folder, ...names] = process.argv.slice(2);
const { Provider } = await import(location);
const alg = 'ES256';

function key(kid) {
    const file = `${folder}/${kid}.jwk`;
    if (!existsSync(file)) {
        const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
        const jwk = { ...privateKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
        writeFileSync(file, JSON.stringify(jwk));
    }
    return JSON.parse(readFileSync(file, 'utf8'));
}

function client(client_id) {
    return {
        client_id,
        client_secret: `${client_id}-secret`,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: alg,
    };
}

function settings() {
    return {
        clients: [client('agent'), client('toolcrib')],
        jwks: { keys: names.map(key) },
        features: {
            devInteractions: { enabled: false },
            clientCredentials: { enabled: true },
            // Whoever names a resource gets a token for it (RFC 8707), and whoever does not, one for orders.
            resourceIndicators: {
                enabled: true,
                defaultResource: () => 'https://orders.example.com',
                getResourceServerInfo: (_, resource) => ({
                    audience: resource,
                    scope: 'orders',
                    accessTokenFormat: 'jwt',
                    jwt: { sign: { alg } },
                }),
            },
        },
    };
}

// It warns that it forgets everything when it ends.
console.warn = () => {};
const server = createServer().listen(Number(port), '127.0.0.1', () => {
    const issuer = `http://127.0.0.1:${server.address().port}`;
    server.on('request', new Provider(issuer, settings()).callback());
    console.log(`listens on ${issuer}`);
});
