// Opens pages in a real browser: node check.mjs CHROMIUM FILE.html… Each must load nothing, log nothing, run no script, fit a
// phone, clip no text, have red figures where they are bad and nowhere else, and be accessible by axe-core's rules, in both colour
// schemes. Screenshots and a PDF are written beside the files.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import puppeteer from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const [executablePath, ...files] = process.argv.slice(2)
const views = [
  { media: 'screen', scheme: 'light', width: 1400 }, { media: 'screen', scheme: 'dark', width: 1400 },
  { media: 'screen', scheme: 'light', width: 390 }, { media: 'screen', scheme: 'dark', width: 390 },
  { media: 'print', scheme: 'dark', width: 720 },
]
const few = views.filter(v => v.media === 'screen' && (v.scheme === 'light') === (v.width > 500)) // but for the first page
// the parts that a page must have, and a figure in red of it
const states = {
  empty: { parts: ['idle'] },
  first: { parts: ['current', 'figures', 'retries', 'running', 'schedules', 'workers'], red: '60 %' },
  young: { parts: ['figures', 'queues', 'queue-1', 'types'] },
  well: { parts: ['figures', 'queues', 'queue-2', 'types', 'workers'] },
  busy: { parts: ['figures', 'failures', 'retries', 'running', 'schedules', 'queues', 'queue-2', 'types', 'workers', 'missing'], red: '1 h 24 min' },
}
const highest = 16_000 // pixels of a screenshot: of more, a browser has no memory

// what the browser made of the page
const look = () => ({
  title: document.title,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  high: document.documentElement.scrollHeight,
  elements: [...document.querySelectorAll('script, iframe, img, object, embed, form, input, link, base')].map(e => e.tagName),
  attributes: [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on') || n === 'src'),
  links: [...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !document.getElementById(h.slice(1))),
})

// texts that stand outside their box or on one another, and colours that are not where they should be
const draw = () => {
  const faults = []
  const box = node => { const r = document.createRange(); r.selectNodeContents(node); return r.getBoundingClientRect() }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let t; (t = texts.nextNode());) {
    const at = box(t), of = t.parentElement.closest('td, th, caption, dt, dd, li, h1, h2, h3, p, figure, article, section')
    if (!t.data.trim() || !at.width || !of || t.parentElement.closest('title')) continue
    const outer = (t.parentElement.closest('.days, .scale') ? of.closest('figure') : of).getBoundingClientRect()
    if (at.left < outer.left - 1 || at.right > outer.right + 1) faults.push(`clipped: ${t.data.slice(0, 40)}`)
  }
  for (const line of document.querySelectorAll('.days, .scale')) {
    const seen = [...line.children].map(box)
    seen.forEach((a, n) => seen.slice(n + 1).forEach(b => {
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) faults.push(`texts on one another: ${line.textContent}`)
    }))
  }
  for (const spark of document.querySelectorAll('.spark')) {
    const head = box(spark.closest('table').querySelector('th.week'))
    if (Math.abs(spark.getBoundingClientRect().left - head.left) > 2) faults.push('a sparkline is not under its heading')
  }
  const probe = document.body.appendChild(document.createElement('p'))
  probe.className = 'bad'
  const red = getComputedStyle(probe).color
  probe.remove()
  for (const cell of document.querySelectorAll('td, .number, .figures .note')) {
    if ((getComputedStyle(cell).color === red) !== cell.classList.contains('bad')) faults.push(`red, or not: ${cell.textContent}`)
  }
  const parts = [...document.querySelectorAll('[aria-labelledby] > h2, [aria-labelledby] > h3')].filter(h => h.offsetHeight).map(h => h.id)
  const scrolled = [...document.querySelectorAll('.wide')].filter(w => w.scrollWidth > w.clientWidth)
  return {
    faults: [...new Set(faults)], parts, scrolled: scrolled.map(w => w.querySelector('caption').textContent),
    red: [...document.querySelectorAll('.bad')].map(c => c.textContent),
  }
}

const faults = []
const browser = await puppeteer.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'], protocolTimeout: 600_000 })
for (const file of files) {
  const url = pathToFileURL(resolve(file)).href
  for (const { media, scheme, width } of file === files[0] ? views : few) {
    const fault = text => faults.push(`${file}, ${media}, ${scheme}, ${width} px wide: ${text}`)
    const phone = width < 500
    const page = await browser.newPage()
    page.setDefaultTimeout(300_000)
    page.on('console', m => fault(`console: ${m.text()}`))
    page.on('pageerror', e => fault(`script: ${e.message}`))
    page.on('dialog', d => { fault(`dialog: ${d.message()}`); d.dismiss() })
    page.on('request', r => { if (r.url() !== url) fault(`request: ${r.url().slice(0, 200)}`) })
    await page.setViewport({ width, height: 900, deviceScaleFactor: phone ? 2 : 1, isMobile: phone })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
    await page.emulateMediaType(media)
    await page.goto(url)

    const seen = await page.evaluate(look)
    if (!/: report up to /.test(seen.title)) fault(`title: ${seen.title}`)
    if (seen.wide > 0) fault(`the page scrolls sideways, by ${seen.wide} px`)
    for (const list of [seen.elements, seen.attributes, seen.links]) if (list.length) fault(`has ${list}`)
    const drawn = await page.evaluate(draw), state = states[basename(file, '.html')]
    drawn.faults.forEach(fault)
    for (const part of state?.parts ?? []) if (!drawn.parts.includes(part)) fault(`has no part ${part}`)
    if (state?.red && !drawn.red.includes(state.red)) fault(`${state.red} is not red, but ${drawn.red}`)
    if (state && width > 1000 && drawn.scrolled.length) fault(`tables are too wide: ${drawn.scrolled}`) // other names may be longer
    if (state && !state.red && drawn.red.length) fault(`${drawn.red} is red`)
    const height = Math.min(seen.high, highest / (phone ? 2 : 1))
    await page.screenshot({
      path: file.replace(/\.html$/, `-${media}-${scheme}-${width}.png`), clip: { x: 0, y: 0, width, height }, captureBeyondViewport: true,
    })
    if (media === 'print') {
      await page.pdf({ path: file.replace(/\.html$/, '.pdf'), format: 'A4' })
    } else {
      await page.evaluate(axe) // last, for it is the one script that runs
      const { violations } = await page.evaluate(() => axe.run({ resultTypes: ['violations'] }))
      for (const v of violations) fault(`axe: ${v.impact}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.target).join(' ')}`)
    }
    await page.close()
  }
}
await browser.close()
for (const fault of faults) console.error(fault)
console.log(`${files.length} pages, ${faults.length} faults`)
process.exitCode = faults.length ? 1 : 0
