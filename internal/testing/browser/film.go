package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"slices"
	"time"
)

// Film is a recording of a page, for documents.
type Film struct {
	frames []*image.RGBA
	shown  []time.Duration // how long each frame is shown
}

// shortest is the least duration of a frame: it includes the time of omitted frames before it.
const shortest = 140 * time.Millisecond

// frame is the browser's image from a time on.
type frame struct {
	Data     []byte // PNG
	Metadata struct{ Timestamp float64 }
}

// Film records the page while do runs. The last frame is shown for a time.
func (p *Page) Film(do func(), last time.Duration) *Film {
	p.t.Helper()
	p.do("Page.startScreencast", map[string]any{"format": "png"}, nil)
	do()
	p.do("Page.stopScreencast", map[string]any{}, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	film := new(Film)
	begin := 0.0 // of the first omitted frame
	for i, f := range p.frames {
		begin = cmp.Or(begin, f.Metadata.Timestamp)
		shown := last
		if i+1 < len(p.frames) {
			shown = time.Duration((p.frames[i+1].Metadata.Timestamp - begin) * float64(time.Second))
		}
		if shown < shortest {
			continue
		}
		begin = 0
		if err := film.add(f.Data, shown); err != nil {
			p.t.Fatal(err)
		}
	}
	return film
}

// add adds a frame. An unchanged frame extends the last one instead.
func (f *Film) add(picture []byte, shown time.Duration) error {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return err
	}
	next := image.NewRGBA(decoded.Bounds())
	draw.Draw(next, next.Rect, decoded, decoded.Bounds().Min, draw.Src)
	if n := len(f.frames); n > 0 && bytes.Equal(f.frames[n-1].Pix, next.Pix) {
		f.shown[n-1] += shown
		return nil
	}
	f.frames, f.shown = append(f.frames, next), append(f.shown, shown)
	return nil
}

// GIF returns the film as a repeating animation. All frames must have the same size. Each contains
// only changed pixels, and they share the 63 most frequent colors.
func (f *Film) GIF() ([]byte, error) {
	out := &gif.GIF{}
	colors := f.palette()
	indexes := make(map[color.RGBA]uint8)
	var before *image.RGBA
	for i, frame := range f.frames {
		area := changed(before, frame)
		part := image.NewPaletted(area, colors)
		for y := area.Min.Y; y < area.Max.Y; y++ {
			for x := area.Min.X; x < area.Max.X; x++ {
				c := frame.RGBAAt(x, y)
				if before != nil && before.RGBAAt(x, y) == c {
					continue // transparent, the color 0
				}
				if _, known := indexes[c]; !known {
					indexes[c] = uint8(colors[1:].Index(c) + 1)
				}
				part.SetColorIndex(x, y, indexes[c])
			}
		}
		out.Image = append(out.Image, part)
		out.Delay = append(out.Delay, int(f.shown[i]/(10*time.Millisecond)))
		out.Disposal = append(out.Disposal, gif.DisposalNone)
		before = frame
	}
	encoded := new(bytes.Buffer)
	err := gif.EncodeAll(encoded, out)
	return encoded.Bytes(), err
}

// palette returns the colors of the film: transparent, and the most frequent ones.
func (f *Film) palette() color.Palette {
	count := make(map[color.RGBA]int)
	for _, frame := range f.frames {
		for i := 0; i < len(frame.Pix); i += 4 {
			count[color.RGBA{frame.Pix[i], frame.Pix[i+1], frame.Pix[i+2], frame.Pix[i+3]}]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	colors := color.Palette{color.RGBA{}}
	for _, c := range all[:min(len(all), 63)] {
		colors = append(colors, c)
	}
	return colors
}

// changed returns the area where two frames differ; the entire frame if there is none before.
func changed(before, frame *image.RGBA) (area image.Rectangle) {
	if before == nil {
		return frame.Rect
	}
	for y := range frame.Rect.Dy() {
		for x := range frame.Rect.Dx() {
			if before.RGBAAt(x, y) != frame.RGBAAt(x, y) {
				area = area.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return area
}
