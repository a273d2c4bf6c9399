#include "observe/live_view.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "accrue/core/units.h"
#include "core/words.h"
#include "observe/styled_text.h"

namespace accrue::observe {
namespace {

constexpr int label_columns = 8;
constexpr int graph_from = 36;  ///< where bars and curves begin, one below the other
constexpr int widest_graph = 40;
constexpr int narrowest_graph = 8;
constexpr double much_of_budget = 0.9, most_of_budget = 0.98;

/// One field of a line, or a line's graph.
struct Piece {
  std::string text;
  Look look = Look::plain;
};

std::string four_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4f", value);
  return text.data();
}

/// "4.5 ms a step", "2.5 s a step".
std::string pace(double step_seconds) {
  if (step_seconds >= 1) return format_seconds(step_seconds) + " a step";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g ms a step", step_seconds * 1000);
  return text.data();
}

std::string whole_percent(double part) {
  return std::to_string(static_cast<int>(std::clamp(part, 0.0, 9.99) * 100)) + "%";
}

/// Builds the lines of one canvas.
class View {
 public:
  explicit View(const Canvas& canvas)
      : canvas_(canvas), columns_(std::max(canvas.columns - 1, 1)) {}

  /// Begins a line with as many of the fields as fit, at least the first.
  void begin(std::string_view label, const std::vector<Piece>& fields) {
    StyledText line;
    line.add(label, Look::faint).pad_to(label_columns);
    bool is_first = true;
    for (const Piece& field : fields) {
      if (field.text.empty()) continue;
      const std::string gap = is_first ? "" : "  ";
      if (!is_first && line.columns() + columns_of(gap + field.text) > columns_) continue;
      line.add(gap).add(field.text, field.look);
      is_first = false;
    }
    line.cut_to(columns_);
    lines_.push_back(std::move(line));
  }

  /// Columns for a graph at the end of the line; 0 if there is no room.
  int room_for_graph() {
    StyledText& line = lines_.back();
    const int from = columns_ - graph_from >= narrowest_graph && line.columns() + 2 <= graph_from
                         ? graph_from
                         : line.columns() + 2;
    const int room = std::min(columns_ - from, widest_graph);
    if (room < narrowest_graph) return 0;
    line.pad_to(from);
    return room;
  }
  void graph(const Piece& piece) { lines_.back().add(piece.text, piece.look); }

  std::vector<std::string> in_bytes() const {
    const auto most = static_cast<std::size_t>(std::max(canvas_.rows - 1, 1));
    std::vector<std::string> bytes;
    if (lines_.size() < most) bytes.emplace_back();
    for (const StyledText& line : lines_)
      if (bytes.size() < most) bytes.push_back(line.in_bytes(canvas_.colours));
    return bytes;
  }

  int columns() const { return columns_; }
  bool utf8() const { return canvas_.utf8; }

 private:
  const Canvas& canvas_;
  int columns_;
  std::vector<StyledText> lines_;
};

void add_step(View& view, const LiveStatus& status) {
  view.begin("step", {{status.position, Look::strong},
                      {status.seconds_left ? "left " + format_duration(*status.seconds_left) : ""},
                      {whole_percent(status.done)}});
  if (const int room = view.room_for_graph(); room > 0)
    view.graph({filled_bar(status.done, room, view.utf8()), Look::good});
}

void add_loss(View& view, const LiveStatus& status) {
  if (!status.loss && !status.eval_loss) return;
  view.begin("loss", {{status.loss ? four_digits(*status.loss) : "", Look::strong},
                      {status.eval_loss ? "eval " + four_digits(*status.eval_loss) : ""}});
  if (const int room = view.room_for_graph(); room > 0)
    view.graph({sparkline(status.losses.points(static_cast<std::size_t>(room)), view.utf8()),
                Look::plain});
}

void add_speed(View& view, const LiveStatus& status) {
  const bool knows_nothing = status.rate.empty() && !status.step_seconds;
  if (knows_nothing && status.micro_batch.empty()) return;
  view.begin("speed", {{status.rate},
                       {status.step_seconds ? pace(*status.step_seconds) : ""},
                       {status.micro_batch.empty() ? "" : "micro-batch " + status.micro_batch}});
}

Look look_of_memory(double part) {
  if (part >= most_of_budget) return Look::danger;
  return part >= much_of_budget ? Look::caution : Look::good;
}

void add_memory(View& view, const LiveStatus& status) {
  if (!status.peak_bytes) return;
  const std::string peak = format_bytes(*status.peak_bytes);
  if (!status.budget_bytes || *status.budget_bytes <= 0) return view.begin("memory", {{peak}});
  const double part =
      static_cast<double>(*status.peak_bytes) / static_cast<double>(*status.budget_bytes);
  view.begin("memory",
             {{peak + " of " + format_bytes(*status.budget_bytes)}, {whole_percent(part)}});
  if (const int room = view.room_for_graph(); room > 0)
    view.graph({filled_bar(part, room, view.utf8()), look_of_memory(part)});
}

void add_batch(View& view, const LiveStatus& status) {
  if (status.batch.empty()) return;
  const bool fits = label_columns + columns_of(status.batch) <= view.columns();
  view.begin("batch", {{fits ? status.batch : status.batch_in_short}});
}

/// "36 + 28 samples"; for many ranks the least and the most.
std::string shares_in_words(const std::vector<std::int64_t>& samples) {
  constexpr std::size_t most_named = 8;
  if (samples.size() <= most_named) {
    std::string text;
    for (const std::int64_t share : samples)
      text += (text.empty() ? "" : " + ") + std::to_string(share);
    return text + " samples";
  }
  const auto [least, most] = std::ranges::minmax(samples);
  return std::to_string(samples.size()) + ", with " + std::to_string(least) + " to " +
         std::to_string(most) + " samples each";
}

void add_ranks(View& view, const LiveStatus& status) {
  if (status.rank_samples.size() < 2) return;
  view.begin("ranks", {{shares_in_words(status.rank_samples)}});
}

}  // namespace

std::vector<std::string> live_view(const LiveStatus& status, const Canvas& canvas) {
  View view(canvas);
  add_step(view, status);
  add_loss(view, status);
  add_speed(view, status);
  add_memory(view, status);
  add_batch(view, status);
  add_ranks(view, status);
  return view.in_bytes();
}

}  // namespace accrue::observe
