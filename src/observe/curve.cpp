#include "observe/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

namespace accrue::observe {
namespace {

constexpr std::size_t most_points = 512;

constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> ascii_marks{"_", ".", ",", "-", "=", "+", "*", "#"};

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

void Curve::add(double value) {
  if (!std::isfinite(value)) return;
  if (means_.empty() || in_last_ == each_) {
    if (means_.size() == most_points) halve();
    means_.push_back(0);
    in_last_ = 0;
  }
  ++in_last_;
  means_.back() += (value - means_.back()) / static_cast<double>(in_last_);
}

void Curve::halve() {
  for (std::size_t i = 0; i < means_.size() / 2; ++i)
    means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
  means_.resize(means_.size() / 2);
  each_ *= 2;
}

std::vector<double> Curve::points(std::size_t count) const {
  if (means_.size() <= count) return means_;
  std::vector<double> points;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = means_.begin() + static_cast<std::ptrdiff_t>(i * means_.size() / count);
    const auto end = means_.begin() + static_cast<std::ptrdiff_t>((i + 1) * means_.size() / count);
    points.push_back(std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin));
  }
  return points;
}

std::string sparkline(const std::vector<double>& points, bool utf8) {
  if (points.empty()) return {};
  const auto [low, high] = std::ranges::minmax(points);
  const auto& marks = utf8 ? blocks : ascii_marks;
  std::string line;
  for (const double point : points) {
    const double height = high > low ? (point - low) / (high - low) : 0;
    const auto level = static_cast<std::size_t>(height * static_cast<double>(marks.size()));
    line += marks[std::min(level, marks.size() - 1)];
  }
  return line;
}

std::string filled_bar(double part, int columns, bool utf8) {
  const int full = std::clamp(static_cast<int>(part * columns), 0, columns);
  return repeated(utf8 ? "█" : "#", full) + repeated(utf8 ? "░" : ".", columns - full);
}

}  // namespace accrue::observe
