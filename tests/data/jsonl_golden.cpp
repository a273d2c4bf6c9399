// Prints the results for JSON lines, as JSON, for jsonl_golden.py:
// jsonl_golden FILE CONTEXT (padded|packed): the micro-batch of all samples, as one object
// jsonl_golden FILE samples: for each line the samples, or its problem
// jsonl_golden FILE messages: for each line the result of with_messages(), or its problem

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "accrue/data/source.h"
#include "data/chat/lines/foreign_line.h"
#include "data/json/line_json.h"
#include "data/text/samples/json_sample.h"

namespace {

nlohmann::json rows_of(const at::Tensor& matrix) {
  nlohmann::json rows = nlohmann::json::array();
  const auto* values = matrix.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < matrix.size(0); ++row, values += matrix.size(1))
    rows.push_back(std::vector<std::int64_t>(values, values + matrix.size(1)));
  return rows;
}

nlohmann::json batch_of(const std::string& file, const std::string& context, bool packing) {
  const auto source = accrue::data::open_source(
      {.globs = {file}, .context = std::stoll(context), .packing = packing}, "data");
  std::vector<std::int64_t> all(static_cast<std::size_t>(source->size()));
  std::iota(all.begin(), all.end(), 0);
  const accrue::batch::MicroBatch micro = source->fetch(all);
  nlohmann::json spans = nlohmann::json::array();
  for (const accrue::SampleSpan& span : micro.spans)
    spans.push_back({span.row, span.begin, span.end});
  return {{"inputs", rows_of(micro.inputs)},
          {"targets", rows_of(micro.targets)},
          {"spans", spans},
          {"tokens", micro.tokens}};
}

nlohmann::json refusal_of(const accrue::data::LineProblem& problem) {
  return {{"refused", problem.received}};
}

nlohmann::json samples_of(accrue::data::SampleParser& parser, const std::string& line) {
  if (const auto problem = parser.parse(line)) return refusal_of(*problem);
  nlohmann::json samples = nlohmann::json::array();
  for (const accrue::data::JsonSample& sample : parser.samples())
    samples.push_back(
        {{"ids", sample.tokens}, {"labels", sample.labels}, {"weight", sample.weight}});
  const auto unread = parser.unread_keys();
  return {{"samples", samples}, {"unread", std::vector<std::string>(unread.begin(), unread.end())}};
}

nlohmann::ordered_json messages_of(const std::string& line) {
  accrue::data::LineJson read = accrue::data::read_line_json(line);
  if (read.problem) return refusal_of(*read.problem);
  const auto made = accrue::data::with_messages(std::move(read.value));
  return made.problem ? nlohmann::ordered_json(refusal_of(*made.problem)) : made.line;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 3) {
    std::cout << batch_of(words[0], words[1], words[2] == "packed");
    return 0;
  }
  if (words.size() != 2) return 2;
  std::ifstream lines(words[0]);
  accrue::data::JsonSampleParser parser(/*vocab_bound=*/0);
  for (std::string line; std::getline(lines, line);)
    if (words[1] == "samples")
      std::cout << samples_of(parser, line) << '\n';
    else
      std::cout << messages_of(line) << '\n';
}
