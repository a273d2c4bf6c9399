#include "distributed/group/handshake.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"

namespace accrue::distributed {
namespace {

/// The hash of Fowler, Noll and Vo, eight bytes at a time because models are large.
class Digest {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    for (; bytes >= sizeof(std::uint64_t);
         from += sizeof(std::uint64_t), bytes -= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::copy_n(from, sizeof(word), reinterpret_cast<unsigned char*>(&word));
      take(word);
    }
    for (; bytes > 0; ++from, --bytes) take(*from);
  }
  void add(const std::string& text) { add(text.data(), text.size()); }

  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(state_));
    return digits;
  }

 private:
  void take(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001b3;
    state_ ^= state_ >> 32;  // a product alone never moves high bits down
  }
  std::uint64_t state_ = 0xcbf29ce484222325;
};

const std::string* find(const Facts& facts, const std::string& name) {
  const auto at = std::ranges::find(facts, name, &Facts::value_type::first);
  return at == facts.end() ? nullptr : &at->second;
}

std::string quoted(const std::string* value) { return value ? "'" + *value + "'" : "nothing"; }

std::vector<std::string> all_names(const std::vector<Facts>& by_rank) {
  std::vector<std::string> names;
  for (const Facts& facts : by_rank)
    for (const auto& [name, value] : facts)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

}  // namespace

std::string differing_facts(const std::vector<Facts>& by_rank) {
  std::string text;
  for (const std::string& name : all_names(by_rank)) {
    const std::string first = quoted(find(by_rank.front(), name));
    std::string others;
    for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
      const std::string value = quoted(find(by_rank[rank], name));
      if (value != first)
        others.append(", ").append(value).append(" on rank ").append(std::to_string(rank));
    }
    if (others.empty()) continue;
    if (!text.empty()) text += "; ";
    text.append(name).append(": ").append(first).append(" on rank 0").append(others);
  }
  return text;
}

std::string to_text(const Facts& facts) { return nlohmann::json(facts).dump(); }

Facts facts_from_text(const std::string& text) {
  const auto expect = [](bool holds) {
    if (!holds)
      throw runtime_error("join the other ranks", "the facts of a rank, by name", "something else",
                          "the same build of accrue on all ranks");
  };
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  expect(list.is_array());
  Facts facts;
  for (const nlohmann::json& fact : list) {
    expect(fact.is_array() && fact.size() == 2 && fact[0].is_string() && fact[1].is_string());
    facts.emplace_back(fact[0].get<std::string>(), fact[1].get<std::string>());
  }
  return facts;
}

void exchange_facts(Group& group, std::string_view topic, const Facts& mine) {
  std::vector<Facts> by_rank;
  for (const std::string& text : group.gather_texts(topic, to_text(mine)))
    by_rank.push_back(facts_from_text(text));
  const std::string differing = differing_facts(by_rank);
  if (!differing.empty())
    throw usage_error("join the other ranks", "the same on all of them", differing,
                      "starting all ranks with one program, config and data");
}

std::string shape_digest(const NamedParameters& parameters) {
  Digest digest;
  for (const NamedParameter& parameter : parameters) {
    digest.add(parameter.name);
    digest.add(c10::toString(parameter.tensor.scalar_type()));
    for (const std::int64_t size : parameter.tensor.sizes()) digest.add(&size, sizeof(size));
  }
  return digest.text();
}

std::string value_digest(const NamedParameters& parameters) {
  Digest digest;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor values = parameter.tensor.detach().cpu().contiguous();
    const auto* const bytes = static_cast<const std::byte*>(values.const_data_ptr());
    const std::size_t size = values.element_size();
    memory::for_pieces(values, [&](std::int64_t begin, std::int64_t count) {
      digest.add(bytes + static_cast<std::size_t>(begin) * size,
                 static_cast<std::size_t>(count) * size);
    });
  }
  return digest.text();
}

}  // namespace accrue::distributed
