"""Names beside what they name, moved apart where they would meet."""
from theme import plot_colour

LINE_PX = 14  # height of one label


def spread(positions, gap, low, high):
    """Positions moved as little as their order allows so that neighbours are `gap` apart, within [low, high] if they
    fit. Same order as given."""
    order = sorted(range(len(positions)), key=lambda i: (positions[i], i))
    groups = []  # of neighbours that touch: [sum of wanted first positions, indices]
    for index in order:
        groups.append([positions[index], [index]])
        while len(groups) > 1:
            (a, first), (b, second) = groups[-2:]
            a_start = a / len(first)
            if b / len(second) - a_start >= gap * len(first):
                break
            groups[-2:] = [[a + b - gap * len(first) * len(second), first + second]]
    placed = [0.0] * len(positions)
    for total, members in groups:
        start = total / len(members)
        start = max(low, min(start, high - gap * (len(members) - 1)))
        for k, index in enumerate(members):
            placed[index] = start + gap * k
    # Groups pushed back from an end may meet again: one pass upwards, one downwards.
    for a, b in zip(order, order[1:]):
        placed[b] = max(placed[b], placed[a] + gap)
    if order and placed[order[-1]] > high:
        placed[order[-1]] = high
        for a, b in reversed(list(zip(order, order[1:]))):
            placed[a] = min(placed[a], placed[b] - gap)
    return placed


def label_ends(figure, items):
    """Writes each label right of its curve's end. items: (ax, x, y, text, colour name)."""
    figure.canvas.draw()
    for ax in dict.fromkeys(item[0] for item in items):
        mine = [item for item in items if item[0] is ax]
        box = ax.get_window_extent()
        pixels = [ax.transData.transform((x, y)) for _, x, y, _, _ in mine]
        wanted = spread([p[1] for p in pixels], LINE_PX, box.y0, box.y1)
        for (_, x, y, text, colour), pixel, target in zip(mine, pixels, wanted):
            moved = abs(target - pixel[1]) > 3
            ax.annotate(text, (x, y), xytext=(box.x1 - pixel[0] + 8, target - pixel[1]), textcoords="offset points",
                        va="center", ha="left", fontsize=11, color=plot_colour(colour), annotation_clip=False,
                        arrowprops={"arrowstyle": "-", "color": plot_colour(colour), "linewidth": 0.6, "alpha": 0.7,
                                    "shrinkA": 1, "shrinkB": 4} if moved or box.x1 - pixel[0] > 20 else None)


# Where a label may stand around its point, nearest first: (dx, dy, horizontal alignment).
_AROUND = [(dx, dy, ha) for r in (10, 18, 30, 44, 60) for dx, dy, ha in
           ((r, 0, "left"), (-r, 0, "right"), (0, r, "center"), (0, -r, "center"), (r, r, "left"), (-r, r, "right"),
            (r, -r, "left"), (-r, -r, "right"))]


def label_points(figure, ax, items, lines):
    """Writes each label near its point, clear of all series and other labels. items: (x, y, text, colour name);
    lines: all series, each a
    list of (x, y)."""
    figure.canvas.draw()
    box = ax.get_window_extent()
    to_pixel = ax.transData.transform
    taken = [(px - 6, py - 6, px + 6, py + 6) for line in lines for px, py in _along([to_pixel(p) for p in line])]
    for x, y, text, colour in items:
        px, py = to_pixel((x, y))
        width, best = 6.6 * len(text), None
        for rank, (dx, dy, ha) in enumerate(_AROUND):
            left = px + dx - {"left": 0, "right": width, "center": width / 2}[ha]
            area = (left, py + dy - LINE_PX / 2, left + width, py + dy + LINE_PX / 2)
            outside = max(0, box.x0 - area[0]) + max(0, area[2] - box.x1) + max(0, box.y0 - area[1]) + \
                max(0, area[3] - box.y1)
            cost = sum(_overlap(area, other) for other in taken) + 40 * outside + rank
            if best is None or cost < best[0]:
                best = (cost, dx, dy, ha, area)
        _, dx, dy, ha, area = best
        taken.append(area)
        far = max(abs(dx), abs(dy)) > 20
        ax.annotate(text, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va="center", fontsize=11,
                    color=plot_colour(colour),
                    arrowprops={"arrowstyle": "-", "color": plot_colour(colour), "linewidth": 0.6, "shrinkA": 1,
                                "shrinkB": 4} if far else None)


def _along(pixels):
    """The points of a series and others between them, a few pixels apart."""
    yield from pixels
    for (x0, y0), (x1, y1) in zip(pixels, pixels[1:]):
        steps = int(max(abs(x1 - x0), abs(y1 - y0)) / 12)
        yield from ((x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps) for k in range(1, steps))


def _overlap(a, b):
    return max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
