#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "optim/kept_state.h"

namespace accrue::optim {

/// Elements that are converted on the stack at once: a multiple of the block sizes of states' codes
/// and of stochastic rounding.
inline constexpr std::size_t kBlockElements = 2048;
/// The most states that an optimizer keeps per parameter.
inline constexpr std::size_t kMostStates = 2;

/// A parameter's state with the random stream of its next rounding.
struct WrittenState {
  const KeptState* kept;
  RoundingStream rounding;
};

inline bool all_plain(std::span<const WrittenState> states) {
  for (const WrittenState& state : states)
    if (!state.kept->is_plain()) return false;
  return true;
}

/// Pointers to elements [begin, ...) of plain states; null if an optimizer keeps no such state.
template <class T>
std::array<T*, kMostStates> plain_elements(std::span<const WrittenState> states,
                                           std::size_t begin) {
  std::array<T*, kMostStates> pointers{};
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i].kept->is_plain())
      pointers[i] = states[i].kept->values().template mutable_data_ptr<T>() + begin;
  return pointers;
}

/// At most kBlockElements elements of the states, from `begin` on: in place, or decoded on the
/// stack until store().
template <class T>
class StateBlock {
 public:
  StateBlock(std::span<const WrittenState> states, std::size_t begin, std::size_t count)
      : states_(states), begin_(begin), count_(count) {
    pointers_ = plain_elements<T>(states, begin);
    if constexpr (std::is_same_v<T, float>)
      for (std::size_t i = 0; i < states_.size(); ++i)
        if (!states_[i].kept->is_plain()) {
          states_[i].kept->decode(begin_, count_, decoded_[i].data());
          pointers_[i] = decoded_[i].data();
        }
  }

  const std::array<T*, kMostStates>& elements() const { return pointers_; }

  void store() const {
    if constexpr (std::is_same_v<T, float>)
      for (std::size_t i = 0; i < states_.size(); ++i)
        if (!states_[i].kept->is_plain())
          states_[i].kept->encode(begin_, count_, decoded_[i].data(), states_[i].rounding);
  }

 private:
  std::span<const WrittenState> states_;
  std::size_t begin_, count_;
  std::array<T*, kMostStates> pointers_{};
  std::array<std::array<float, kBlockElements>, kMostStates> decoded_;
};

}  // namespace accrue::optim
