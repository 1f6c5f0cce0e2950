// Opens pages in a real browser: node check.mjs CHROMIUM FILE.html… Each must load nothing, log nothing, run no script, fit a
// phone, and be accessible by axe-core's rules, in both colour schemes. Screenshots and a PDF are written beside the files.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import puppeteer from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const [executablePath, ...files] = process.argv.slice(2)
const views = [
  { media: 'screen', scheme: 'light', width: 1280 }, { media: 'screen', scheme: 'dark', width: 1280 },
  { media: 'screen', scheme: 'light', width: 360 }, { media: 'screen', scheme: 'dark', width: 360 },
  { media: 'print', scheme: 'dark', width: 720 },
]
const few = views.filter(v => v.media === 'screen' && (v.scheme === 'light') === (v.width > 500)) // but for the first page
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
