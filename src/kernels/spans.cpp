#include "kernels/spans.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "accrue/core/error.h"

namespace accrue::kernels {
namespace {

std::string span_in_words(const SampleSpan& span) {
  return '[' + std::to_string(span.begin) + ", " + std::to_string(span.end) + ") of row " +
         std::to_string(span.row);
}

void expect_apart(std::string_view operation, std::vector<SampleSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const SampleSpan& a, const SampleSpan& b) {
    return std::tuple(a.row, a.begin, a.end) < std::tuple(b.row, b.begin, b.end);
  });
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].row == spans[i - 1].row && spans[i].begin < spans[i - 1].end)
      throw usage_error(operation, "sample spans without overlaps",
                        span_in_words(spans[i - 1]) + " and " + span_in_words(spans[i]),
                        "packing each sample into columns of its own");
}

void expect_spans(std::string_view operation, const std::vector<SampleSpan>& spans,
                  std::int64_t rows, std::int64_t length) {
  for (const SampleSpan& span : spans)
    if (span.row < 0 || span.row >= rows || span.begin < 0 || span.begin > span.end ||
        span.end > length)
      throw usage_error(operation,
                        "sample spans inside " + std::to_string(rows) + " rows of " +
                            std::to_string(length) + " columns",
                        span_in_words(span), "the spans that were made with the micro-batch");
  expect_apart(operation, spans);
}

}  // namespace

std::vector<SampleSpan> spans_or_rows(std::string_view operation,
                                      const std::vector<SampleSpan>& spans, std::int64_t rows,
                                      std::int64_t length) {
  expect_spans(operation, spans, rows, length);
  if (!spans.empty()) return spans;
  std::vector<SampleSpan> whole;
  for (std::int64_t row = 0; row < rows; ++row)
    whole.push_back({.sample_id = 0, .row = row, .begin = 0, .end = length});
  return whole;
}

std::vector<SampleSpan> named_spans(std::string_view operation, const ForwardContext& context,
                                    std::int64_t rows, std::int64_t length) {
  std::vector<SampleSpan> spans = spans_or_rows(operation, context.spans, rows, length);
  if (!context.spans.empty()) return spans;
  if (static_cast<std::int64_t>(context.sample_ids.size()) != rows)
    throw usage_error(operation, std::to_string(rows) + " sample ids, one per row",
                      std::to_string(context.sample_ids.size()),
                      "filling ForwardContext::sample_ids from the micro-batch");
  for (std::size_t row = 0; row < spans.size(); ++row)
    spans[row].sample_id = context.sample_ids[row];
  return spans;
}

std::int64_t covered(const std::vector<SampleSpan>& spans) {
  std::int64_t columns = 0;
  for (const SampleSpan& span : spans) columns += span.end - span.begin;
  return columns;
}

std::int64_t longest(const std::vector<SampleSpan>& spans) {
  std::int64_t length = 0;
  for (const SampleSpan& span : spans) length = std::max(length, span.end - span.begin);
  return length;
}

}  // namespace accrue::kernels
