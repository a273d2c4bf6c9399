#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue::observe {

/// The unit of a chart's values, which decides how the page writes them.
enum class Unit {
  plain,
  tokens,
  samples,
  tokens_per_second,
  samples_per_second,
  seconds,
  bytes,
  share,
  joules
};
inline constexpr auto unit_words =
    enum_words<Unit>({{Unit::plain, "plain"},
                      {Unit::tokens, "tokens"},
                      {Unit::samples, "samples"},
                      {Unit::tokens_per_second, "tokens_per_second"},
                      {Unit::samples_per_second, "samples_per_second"},
                      {Unit::seconds, "seconds"},
                      {Unit::bytes, "bytes"},
                      {Unit::share, "share"},
                      {Unit::joules, "joules"}});

enum class Section { learning, batch, speed, memory, other };
inline constexpr auto section_words = enum_words<Section>({{Section::learning, "learning"},
                                                           {Section::batch, "batch"},
                                                           {Section::speed, "speed"},
                                                           {Section::memory, "memory"},
                                                           {Section::other, "other"}});

enum class Drawing {
  lines,   ///< runs over each other
  levels,  ///< like lines, for values that hold until they change
  stack    ///< parts of a whole, one run at a time
};
inline constexpr auto drawing_words = enum_words<Drawing>(
    {{Drawing::lines, "lines"}, {Drawing::levels, "levels"}, {Drawing::stack, "stack"}});

/// The values kept for a bucket of steps.
enum class Kept { extremes, mean, highest };
inline constexpr auto kept_words = enum_words<Kept>(
    {{Kept::extremes, "extremes"}, {Kept::mean, "mean"}, {Kept::highest, "highest"}});

enum class Mark { line, dashed, points, part };
inline constexpr auto mark_words = enum_words<Mark>({{Mark::line, "line"},
                                                     {Mark::dashed, "dashed"},
                                                     {Mark::points, "points"},
                                                     {Mark::part, "part"}});

/// One line of a chart: a column of a StepTable or of evaluations.
struct ChartSeries {
  std::string column, label;
  Mark mark = Mark::line;
};

struct Chart {
  std::string id, title;
  std::string note;  ///< a sentence below the title that explains it
  Section section = Section::other;
  Unit unit = Unit::plain;
  Drawing drawing = Drawing::lines;
  Kept kept = Kept::extremes;
  bool smooth = false;     ///< the reader's smoothing applies
  bool from_zero = false;  ///< the axis of values begins at 0
  bool wide = false;       ///< as wide as the page
  std::vector<ChartSeries> series;
};

/// The charts of runs that have `columns`, in the order of the page: those with data, each with
/// its existing series. Columns that this version does not know get a chart each, in the section
/// other.
std::vector<Chart> charts_of(const std::set<std::string>& columns);

/// How each column of `charts` is kept: everything that a chart which uses it needs.
std::map<std::string, Kept> kept_columns(const std::vector<Chart>& charts);

}  // namespace accrue::observe
