// Draws a terminal after README's quick start: node terminal.mjs HIPQ FILE.svg. Times, ids and the host get fixed values, so an
// unchanged hipq gives the same file.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const [hipq, file] = process.argv.slice(2)
const readme = fileURLToPath(new URL('../README.md', import.meta.url))
const commands = ['hipq jobs', 'hipq failures', 'hipq show files 2']
const columns = 112 // the narrowest terminal that shows these jobs whole

// session returns what the terminal shows.
function session() {
  const fences = [...readFileSync(readme, 'utf8').matchAll(/^```sh quickstart\n(.*?)^```/gms)].map(m => m[1])
  const steps = fences.filter(f => !commands.includes(f.trim()))
  if (!steps.some(s => s.includes('hipq work'))) throw new Error(`${readme} has no quick start`)
  const dir = mkdtempSync(join(tmpdir(), 'hipq-pictures-'))
  const env = { PATH: `${dirname(resolve(hipq))}:${process.env.PATH}`, HOME: dir, TERM: 'xterm-256color', LC_ALL: 'C.UTF-8', SHELL: '/bin/sh' }
  const run = (program, ...args) => execFileSync(program, args, { cwd: dir, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  try {
    for (const step of steps) run('sh', '-euc', step)
    return commands.map(c => {
      const printed = run('script', '-qec', `stty cols ${columns}; ${c}`, '/dev/null') // on a terminal of its own
      return `\x1b[32m$\x1b[0m \x1b[1m${c}\x1b[0m\n${printed.replaceAll('\r', '')}`
    }).join('\n')
  } finally {
    rmSync(dir, { recursive: true })
  }
}

// timeless replaces what differs from run to run. Times keep their distance in hours.
function timeless(text) {
  const time = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, hour = 3_600_000
  const read = t => Date.parse(t.replace(' ', 'T') + 'Z')
  const begin = read(text.match(time)[0]), shown = read('2026-11-21 14:20:00')
  return text
    .replace(time, t => new Date(shown + Math.round((read(t) - begin) / hour) * hour).toISOString().slice(0, 19).replace('T', ' '))
    .replace(/(wait of|ran) [\d.]+m?s/g, '$1 12ms')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '01a1fd9e-5c40-7602-b9f1-dcf21aea0965')
    .replaceAll(` on ${hostname()}`, ' on web1')
}

// rows splits a text with ANSI colours into the terminal's rows, each a list of runs: column, style and text.
function rows(text) {
  return text.trimEnd().split('\n').flatMap(line => {
    const wrapped = [[]]
    let style = '0', column = 0
    for (const [, code, char] of line.matchAll(/\x1b\[(\d+)m|(.)/gu)) {
      if (code) { style = code; continue }
      if (column === columns) { wrapped.push([]); column = 0 }
      const last = wrapped.at(-1).at(-1)
      if (last?.style === style) last.text += char
      else wrapped.at(-1).push({ column, style, text: char })
      column++
    }
    return wrapped
  })
}

// svg draws the rows. Each text has a fixed place and length, so columns align in any font.
function svg(lines) {
  const cell = 8.4, height = 20, margin = 22, bar = 36
  const wide = Math.ceil(columns * cell + 2 * margin), high = bar + lines.length * height + margin
  const escaped = s => s.replace(/[&<>]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c])
  const styles = { 1: ' font-weight="bold" fill="#fff"', 31: ' fill="#ff7b72"', 32: ' fill="#7ee787"', 33: ' fill="#e3b341"' }
  const texts = lines.flatMap((runs, n) => runs.flatMap(r => [...r.text.matchAll(/\S+( \S+)*/g)].map(({ 0: text, index }) => {
    const x = +(margin + (r.column + index) * cell).toFixed(1), length = +(text.length * cell).toFixed(1)
    return `  <text x="${x}" y="${bar + n * height + 15}" textLength="${length}"${styles[r.style] ?? ''}>${escaped(text)}</text>\n`
  })))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${high}" width="${wide}" height="${high}">
<title>${commands.join(', ')}</title>
<rect width="${wide}" height="${high}" rx="10" fill="#161b22"/>
<g fill="#3d444d"><circle cx="26" cy="18" r="6"/><circle cx="46" cy="18" r="6"/><circle cx="66" cy="18" r="6"/></g>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#d1d7e0">
${texts.join('')}</g>
</svg>
`
}

writeFileSync(file, svg(rows(timeless(session()))))
