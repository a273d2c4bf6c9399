#include "distributed/compress/low_rank.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace accrue::distributed {
namespace {

/// The share of its norm that rounding in double leaves of a column that depends on others.
constexpr double kDependent = 0x1p-40;

using Column = std::vector<double>;

double dot(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void subtract_projection(Column& column, const Column& onto) {
  const double along = dot(column, onto);
  for (std::size_t i = 0; i < column.size(); ++i) column[i] -= along * onto[i];
}

void orthonormalise_against(Column& column, const std::vector<Column>& before) {
  const double length = std::sqrt(dot(column, column));
  for (int pass = 0; pass < 2; ++pass)
    for (const Column& other : before) subtract_projection(column, other);
  const double rest = std::sqrt(dot(column, column));
  const double scale = rest > kDependent * length ? 1 / rest : 0;
  for (double& value : column) value *= scale;
}

}  // namespace

void orthonormalise(float* factor, std::size_t rows, std::size_t rank) {
  std::vector<Column> done;
  for (std::size_t k = 0; k < rank; ++k) {
    Column column(rows);
    for (std::size_t i = 0; i < rows; ++i) column[i] = static_cast<double>(factor[i * rank + k]);
    orthonormalise_against(column, done);
    for (std::size_t i = 0; i < rows; ++i) factor[i * rank + k] = static_cast<float>(column[i]);
    done.push_back(std::move(column));
  }
}

bool normalise(float* row, std::size_t columns) {
  double squares = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    const auto value = static_cast<double>(row[j]);
    squares += value * value;
  }
  if (squares == 0) return false;
  const double scale = 1 / std::sqrt(squares);
  for (std::size_t j = 0; j < columns; ++j)
    row[j] = static_cast<float>(static_cast<double>(row[j]) * scale);
  return true;
}

void multiply(const float* left, const float* right, std::size_t rows, std::size_t rank,
              std::size_t columns, float* to) {
  for (std::size_t i = 0; i < rows; ++i, to += columns) {
    std::fill_n(to, columns, 0.0f);
    for (std::size_t k = 0; k < rank; ++k) {
      const float factor = left[i * rank + k];
      const float* const row = right + k * columns;
      for (std::size_t j = 0; j < columns; ++j) to[j] += factor * row[j];
    }
  }
}

}  // namespace accrue::distributed
