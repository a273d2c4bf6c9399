#include "data/tokenizer/regex/alphabet.h"

#include <algorithm>
#include <map>

#include "core/utf8.h"

namespace accrue::data {
namespace {

/// A code point at which a set begins or ends.
struct Edge {
  char32_t at = 0;
  std::size_t set = 0;
};

std::vector<Edge> edges_of(const std::vector<CodePoints>& sets) {
  std::vector<Edge> edges;
  for (std::size_t set = 0; set < sets.size(); ++set)
    for (const CodePoints::Range& range : sets[set].ranges()) {
      edges.push_back({range.first, set});
      edges.push_back({range.last + 1, set});
    }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  return edges;
}

}  // namespace

/// Code points of one kind, from `first` up to the next run.
struct Alphabet::Run {
  char32_t first = 0;
  Kind kind = 0;
};

std::optional<Alphabet> Alphabet::of(const std::vector<CodePoints>& sets) {
  const std::vector<Edge> edges = edges_of(sets);
  std::vector<bool> is_in(sets.size());  // for the current code points
  std::map<std::vector<bool>, Kind> kinds;
  std::vector<Run> runs;
  Alphabet alphabet;
  alphabet.kinds_in_.resize(sets.size());
  auto edge = edges.begin();
  for (char32_t first = 0; first <= CodePoints::largest;) {
    for (; edge != edges.end() && edge->at == first; ++edge) is_in[edge->set] = !is_in[edge->set];
    const auto [found, is_new] = kinds.emplace(is_in, static_cast<Kind>(kinds.size()));
    if (kinds.size() > most_kinds) return std::nullopt;
    if (is_new)
      for (std::size_t set = 0; set < sets.size(); ++set)
        if (is_in[set]) alphabet.kinds_in_[set].push_back(found->second);
    runs.push_back({first, found->second});
    first = edge != edges.end() ? edge->at : CodePoints::largest + 1;
  }
  alphabet.lay_out(runs);
  return alphabet;
}

/// Pages of a single kind are shared.
void Alphabet::lay_out(const std::vector<Run>& runs) {
  std::map<Kind, std::uint16_t> whole;
  const auto add_page = [&](auto&& kind_at) {
    const std::size_t place = kinds_.size() / page_size;
    for (std::size_t i = 0; i < page_size; ++i) kinds_.push_back(kind_at(i));
    return static_cast<std::uint16_t>(place);
  };
  std::size_t run = 0;
  const auto ends_by = [&](char32_t last) {
    return run + 1 < runs.size() && runs[run + 1].first <= last;
  };
  for (char32_t first = 0; first <= CodePoints::largest; first += page_size) {
    while (ends_by(first)) ++run;
    if (ends_by(first + page_size - 1)) {
      pages_.push_back(add_page([&](std::size_t i) {
        while (ends_by(first + static_cast<char32_t>(i))) ++run;
        return runs[run].kind;
      }));
      continue;
    }
    const Kind kind = runs[run].kind;
    const auto [found, is_new] = whole.emplace(kind, std::uint16_t{0});
    if (is_new) found->second = add_page([kind](std::size_t) { return kind; });
    pages_.push_back(found->second);
  }
}

std::string Alphabet::kinds_of(std::string_view text) const {
  std::string kinds(text.size(), '\0');
  const Kind* const ascii = kinds_.data() + pages_[0] * page_size;
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      kinds[count++] = static_cast<char>(ascii[lead]);
      ++at;
    } else {
      kinds[count++] = static_cast<char>(kind_of(code_point_at(text, at)));
      at += utf8_length(text[at]);
    }
  }
  kinds.resize(count);
  return kinds;
}

}  // namespace accrue::data
