/** Follows the end of rows that grow, until somebody scrolls away from it; whoever scrolls back to it follows again. */
import { useCallback, useEffect, useRef, useState } from "react";
import type { Scroll } from "./window";

/** Browsers round what they scroll to. */
const GRAIN = 2;

type Place = { scrollTop: number; scrollHeight: number; clientHeight: number };

/** Whether a scroll begins or ends the following; null where it says nothing. What shrinks moves its end, and nobody scrolled. */
export function isFollowed(before: number, { scrollTop, scrollHeight, clientHeight }: Place): boolean | null {
  const isAtEnd = scrollHeight - clientHeight - scrollTop <= GRAIN;
  if (scrollTop < before && !isAtEnd) return false;
  return scrollTop > before && isAtEnd ? true : null;
}

export function useFollow({ box, toEnd }: Scroll, count: number, isAtFirst: boolean) {
  const [isFollowing, setIsFollowing] = useState(isAtFirst);
  const last = useRef(0);
  /** A scroll that the page makes says nothing of what somebody wants. */
  const scroll = useCallback(
    (move: () => void) => {
      move();
      last.current = box.current?.scrollTop ?? 0;
    },
    [box],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new count is what makes it run
  useEffect(() => {
    if (isFollowing) scroll(toEnd);
  }, [isFollowing, count, scroll, toEnd]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const judge = () => {
      const verdict = isFollowed(last.current, element);
      last.current = element.scrollTop;
      if (verdict !== null) setIsFollowing(verdict);
    };
    element.addEventListener("scroll", judge, { passive: true });
    return () => element.removeEventListener("scroll", judge);
  }, [box]);
  return { isFollowing, setIsFollowing, scroll };
}
